// What changed since the page was drawn?  The server says that something did; htmx fetches it.
const LEAST_MS = 400;

const refresh = (region) => {
  const now = Date.now();
  const wait = Math.max(0, LEAST_MS - (now - (region.lastRefresh ?? 0)));
  if (region.waiting) return;
  region.waiting = setTimeout(() => {
    region.waiting = null;
    region.lastRefresh = Date.now();
    // Typing or an open confirmation inside the region is not taken away from the reader.
    if (region.contains(document.activeElement) && document.activeElement.matches("input, textarea, select")) return;
    region.dispatchEvent(new CustomEvent("changed"));
  }, wait);
};

export const listen = (root) => {
  const region = root.querySelector("[data-live]");
  if (!region || !window.EventSource) return;
  const lamp = document.querySelector("[data-live-lamp]");
  const say = (on, text) => {
    if (!lamp) return;
    lamp.hidden = false;
    lamp.toggleAttribute("data-on", on);
    lamp.textContent = text;
  };
  const source = new EventSource(region.dataset.live);
  source.addEventListener("open", () => say(true, "live"));
  source.addEventListener("changed", () => refresh(region));
  source.addEventListener("error", () => say(false, "reconnecting"));
  source.addEventListener("gone", () => {
    source.close();
    say(false, "ended");
  });
  window.addEventListener("pagehide", () => source.close());
};
