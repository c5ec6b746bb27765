// morph(from, to) makes one element like another and changes nothing that is the same already, so that focus, selection
// and what somebody opened stay.
"use strict";

(() => {
  const keyOf = (node) => (node.nodeType === Node.ELEMENT_NODE ? node.dataset.key || node.id || "" : "");

  const alike = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && keyOf(a) === keyOf(b);

  function attributes(from, to) {
    for (const { name } of [...from.attributes]) {
      const opened = name === "open" && from.nodeName === "DETAILS";
      if (!to.hasAttribute(name) && !opened) from.removeAttribute(name);
    }
    for (const { name, value } of to.attributes) {
      if (from.getAttribute(name) !== value) from.setAttribute(name, value);
    }
  }

  function children(from, to) {
    const keyed = new Map();
    for (const child of from.childNodes) {
      if (keyOf(child)) keyed.set(keyOf(child), child);
    }
    let at = from.firstChild;
    for (const want of [...to.childNodes]) {
      const key = keyOf(want);
      let have = key ? keyed.get(key) : at;
      if (!have || !alike(have, want)) have = null;
      if (!have) {
        from.insertBefore(document.importNode(want, true), at);
        continue;
      }
      if (have === at) at = at.nextSibling;
      else from.insertBefore(have, at);
      keyed.delete(key);
      morph(have, want);
    }
    while (at) {
      const next = at.nextSibling;
      at.remove();
      at = next;
    }
  }

  function morph(from, to) {
    if (from.nodeType !== Node.ELEMENT_NODE) {
      if (from.nodeValue !== to.nodeValue) from.nodeValue = to.nodeValue;
      return;
    }
    if (from.isEqualNode(to)) return;
    attributes(from, to);
    if (from.nodeName !== "INPUT" && from.nodeName !== "SELECT") children(from, to);
  }

  window.schedMorph = morph;
})();
