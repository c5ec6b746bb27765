// What moves on a page: it follows a stream of events, or asks for itself again. Everything on it was there before.
"use strict";

(() => {
  const body = document.body;
  const notice = document.getElementById("notice");
  const spoken = document.getElementById("spoken");
  const state = document.getElementById("live-state");
  const parser = new DOMParser();

  // say shows a line above the page, and has it read out; an empty one goes away.
  function say(text) {
    if (notice.textContent === text) return;
    notice.replaceChildren();
    if (!text) return;
    const p = document.createElement("p");
    p.textContent = text;
    notice.append(p);
  }

  function mark(shape, word) {
    if (!state || state.dataset.word === word) return;
    state.dataset.word = word;
    const mood = document.createElement("span");
    mood.className = "mood mood-" + shape;
    const i = document.createElement("i");
    i.className = "shape";
    i.setAttribute("aria-hidden", "true");
    mood.append(i, word);
    state.replaceChildren(mood);
  }

  // put takes over the parts of a page that have an id.
  function put(html) {
    for (const part of parser.parseFromString(html, "text/html").body.children) {
      const here = document.getElementById(part.id);
      if (here) schedMorph(here, part);
    }
  }

  let pressure = null;
  function tellPressure(level) {
    if (pressure !== null && pressure !== level) spoken.textContent = "Pressure is " + level + " now.";
    pressure = level;
  }

  function follow(address) {
    const charts = schedCharts([...document.querySelectorAll("[data-chart]")]);
    let source = null;
    let again = 0;

    function open() {
      clearTimeout(again);
      if (source || document.hidden) return;
      mark("wait", "connecting");
      source = new EventSource(address);
      source.addEventListener("history", (e) => charts && charts.history(JSON.parse(e.data)));
      source.addEventListener("sample", (e) => {
        const sample = JSON.parse(e.data);
        say("");
        mark("ok", "live");
        tellPressure(sample.pressure);
        if (charts) charts.add(sample);
        body.dataset.samples = String(Number(body.dataset.samples || 0) + 1);
      });
      source.addEventListener("tables", (e) => put(JSON.parse(e.data).html));
      source.addEventListener("trouble", (e) => {
        const trouble = JSON.parse(e.data);
        mark("warn", "waiting");
        say(trouble.What + ". " + trouble.Advice);
      });
      source.onerror = () => {
        mark("warn", "waiting");
        say("The sidecar that serves this page does not answer, or has too many viewers. Trying again …");
        if (source && source.readyState === EventSource.CLOSED) {
          close();
          again = setTimeout(open, 5000);
        }
      };
    }

    function close() {
      clearTimeout(again);
      if (source) source.close();
      source = null;
    }

    // Nobody looks at a hidden page, and a browser has few connections to a host.
    document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
    addEventListener("pagehide", close);
    addEventListener("pageshow", open);
    open();
  }

  function refresh(seconds) {
    let timer = 0;
    const wait = () => {
      clearTimeout(timer);
      timer = setTimeout(ask, seconds * 1000);
    };

    async function ask() {
      if (document.hidden) return;
      try {
        const response = await fetch(location.href, { headers: { Accept: "text/html" }, signal: AbortSignal.timeout(15000) });
        if (response.redirected) return location.reload(); // the session ended
        const page = parser.parseFromString(await response.text(), "text/html");
        const wasTrouble = document.querySelector(".empty-bad") !== null;
        if (response.ok && wasTrouble) return location.reload();
        if (response.ok) {
          schedMorph(document.getElementById("main"), page.getElementById("main"));
          say("");
          if (!page.body.dataset.refresh) return;
        } else if (!wasTrouble) {
          const told = page.querySelector(".empty-what");
          say((told ? told.textContent : "This page can't be read now") + ". Trying again …");
        }
      } catch {
        say("The sidecar that serves this page does not answer. Trying again …");
      }
      wait();
    }

    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) ask();
    });
    wait();
  }

  if (body.dataset.live) follow(body.dataset.live);
  else if (body.dataset.refresh) refresh(Number(body.dataset.refresh));
})();
