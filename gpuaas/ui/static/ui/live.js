// What changed since the page was drawn?  The server says that something did; htmx fetches it.
const LEAST_MS = 400;

// What the reader has begun inside the region: it is not taken away by an update.
const busy = (region) => {
  const active = document.activeElement;
  if (region.contains(active) && active.matches("input, textarea, select")) return true;
  return [...region.querySelectorAll("details[open] :is(input, textarea)")].some(
    (field) => field.type !== "hidden" && field.value !== field.defaultValue,
  );
};

const refresh = (region) => {
  if (region.waiting) return;
  const since = Date.now() - (region.lastRefresh ?? 0);
  region.waiting = setTimeout(() => {
    region.waiting = null;
    if (busy(region)) {
      refresh(region);
      return;
    }
    region.lastRefresh = Date.now();
    region.dispatchEvent(new CustomEvent("changed"));
  }, Math.max(LEAST_MS, LEAST_MS - since));
};

const nameOf = (element) =>
  `${element.tagName} ${element.getAttribute("href") ?? ""} ${element.textContent.trim()}`;

// Open parts stay open and the focus stays where it was, although the elements are new.
const keepPlace = (region) => {
  let open = [];
  let focused = "";
  region.addEventListener("htmx:beforeSwap", () => {
    open = [...region.querySelectorAll("details[open] > summary")].map(nameOf);
    focused = region.contains(document.activeElement) ? nameOf(document.activeElement) : "";
  });
  region.addEventListener("htmx:afterSwap", () => {
    for (const summary of region.querySelectorAll("details > summary")) {
      if (open.includes(nameOf(summary))) summary.parentElement.open = true;
    }
    if (!focused) return;
    const candidates = region.querySelectorAll("a, button, summary, [tabindex]");
    [...candidates].find((element) => nameOf(element) === focused)?.focus();
  });
};

export const listen = (root) => {
  const region = root.querySelector("[data-live]");
  if (!region || !window.EventSource) return;
  let said = [false, ""];
  const show = () => {
    const lamp = document.querySelector("[data-live-lamp]");
    if (!lamp || !said[1]) return;
    lamp.hidden = false;
    lamp.toggleAttribute("data-on", said[0]);
    lamp.textContent = said[1];
  };
  const say = (on, text) => {
    said = [on, text];
    show();
  };
  keepPlace(region);
  region.addEventListener("htmx:afterSwap", show);
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
