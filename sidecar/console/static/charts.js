// The overview's charts: what was sampled, drawn with uPlot in the page's own colours.
"use strict";

(() => {
  const spanSeconds = 300;
  const leastSeconds = 60;
  const holeSeconds = 5; // a longer time without a sample is a gap in the lines
  const series = { flow: ["enqueued", "ended", "forecast"], slots: ["running", "slots", "demand"], pending: ["pending"], wait: ["p50", "p95"] };
  const optional = ["forecast", "demand"];

  const short = (v) => {
    if (v === null || v === undefined) return "–";
    if (v >= 1e6) return +(v / 1e6).toFixed(1) + "M";
    if (v >= 1e4) return +(v / 1e3).toFixed(1) + "k";
    return v >= 100 ? String(Math.round(v)) : String(+v.toFixed(v >= 10 ? 1 : 2));
  };
  const duration = (s) => {
    if (s === null || s === undefined) return "–";
    if (s < 0.001) return s === 0 ? "0" : "< 1 ms";
    if (s < 1) return +(s * 1000).toFixed(s < 0.01 ? 1 : 0) + " ms";
    return s < 60 ? +s.toFixed(1) + " s" : +(s / 60).toFixed(1) + " min";
  };
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  class Chart {
    constructor(figure) {
      this.figure = figure;
      this.name = figure.dataset.chart;
      this.plot = figure.querySelector(".plot");
      this.title = figure.querySelector("h2").textContent;
      this.items = new Map([...figure.querySelectorAll("[data-series]")].map((li) => [li.dataset.series, li]));
      this.keys = series[this.name];
      this.format = this.name === "wait" ? duration : short;
      this.data = null;
      new ResizeObserver(() => this.size()).observe(this.plot);
    }

    size() {
      if (this.chart) this.chart.setSize({ width: this.width(), height: this.plot.clientHeight });
    }

    width() {
      const style = getComputedStyle(this.plot);
      return Math.max(120, this.plot.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight));
    }

    options() {
      const line = colour("--line");
      const quiet = colour("--quiet");
      const font = "11px system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif";
      const dashes = { a: [], b: [2, 2], c: [6, 3] };
      const letter = (key) => [..."abc"].find((each) => this.items.get(key).classList.contains("series-" + each));
      return {
        width: this.width(),
        height: this.plot.clientHeight,
        legend: { show: false },
        cursor: { y: false, points: { size: 6 }, drag: { setScale: false, x: false, y: false }, sync: { key: "sched" } },
        scales: {
          x: { time: true, range: (u, from, to) => [Math.max(to - spanSeconds, Math.min(from, to - leastSeconds)), to] },
          y: { range: (u, from, to) => [0, Math.max(this.name === "wait" ? 0.01 : 4, (to || 0) * 1.15)] },
        },
        axes: [
          { stroke: quiet, font, size: 26, gap: 4, space: 64, grid: { show: false }, ticks: { stroke: line, width: 1, size: 4 }, values: [[60, "{HH}:{mm}", null, null, null, null, null, null, 1], [1, "{HH}:{mm}:{ss}", null, null, null, null, null, null, 1]] },
          { stroke: quiet, font, size: 52, gap: 6, space: 32, grid: { stroke: line, width: 1 }, ticks: { show: false }, values: (u, at) => at.map((v) => this.format(v)) },
        ],
        series: [
          {},
          ...this.keys.map((key, i) => ({
            stroke: colour("--series-" + letter(key)),
            width: 1.75,
            dash: dashes[letter(key)],
            fill: i === 0 ? colour("--series-a") + "1f" : undefined,
            points: { show: false },
            spanGaps: false,
          })),
        ],
        hooks: { setCursor: [(u) => this.tell(u.cursor.idx)] },
      };
    }

    set(data) {
      this.data = data;
      const rows = [data.t, ...this.keys.map((key) => data[key])];
      for (const key of optional) {
        const item = this.items.get(key);
        if (item) item.hidden = !data[key].some((v) => v !== null);
      }
      if (!this.chart) {
        this.plot.replaceChildren();
        this.chart = new uPlot(this.options(), rows, this.plot);
      } else {
        this.chart.setData(rows);
      }
      const hover = this.chart.cursor.idx;
      this.tell(this.chart.cursor.left >= 0 ? hover : null);
      const told = this.keys.filter((key) => !this.items.get(key).hidden).map((key) => this.items.get(key).innerText.trim());
      this.plot.setAttribute("aria-label", this.title + ": " + told.join(", "));
    }

    // tell writes the values at an index, or the latest, beside the names.
    tell(index) {
      const at = index === null || index === undefined ? this.data.t.length - 1 : index;
      for (const [key, item] of this.items) item.querySelector("b").textContent = this.format(this.data[key][at]);
    }

    redraw() {
      if (!this.chart) return;
      this.chart.destroy();
      this.chart = null;
      this.set(this.data);
    }
  }

  class Charts {
    constructor(figures) {
      this.charts = figures.map((figure) => new Chart(figure));
      this.keys = Object.values(series).flat();
      this.samples = [];
      matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.charts.forEach((c) => c.redraw()));
    }

    history(samples) {
      this.samples = samples || [];
      this.draw();
    }

    add(sample) {
      this.samples.push(sample);
      this.samples = this.samples.slice(-600);
      this.draw();
    }

    draw() {
      if (this.samples.length < 2) return;
      const data = { t: [] };
      for (const key of this.keys) data[key] = [];
      let last = null;
      for (const s of this.samples) {
        if (last !== null && s.t - last > holeSeconds) {
          data.t.push(last + 0.001);
          for (const key of this.keys) data[key].push(null);
        }
        data.t.push(s.t);
        for (const key of this.keys) data[key].push(s[key] ?? null);
        last = s.t;
      }
      for (const chart of this.charts) chart.set(data);
    }
  }

  window.schedCharts = (figures) => (figures.length ? new Charts(figures) : null);
})();
