// What does a page gain when scripts run?  Nothing that it needs: only comfort.
import { showTimes } from "./time.js";
import { offerCopies } from "./copy.js";
import { listen } from "./live.js";
import { arrangeLists } from "./lists.js";

const dressed = (root) => {
  showTimes(root);
  offerCopies(root);
  arrangeLists(root);
};

const openMenus = () => document.querySelectorAll("details.pop[open]");

document.addEventListener("click", (event) => {
  for (const menu of openMenus()) {
    if (!menu.contains(event.target)) menu.open = false;
  }
});

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    for (const menu of openMenus()) {
      menu.open = false;
      menu.querySelector("summary").focus();
    }
  }
  if (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey)) {
    const find = document.getElementById("find");
    if (find) {
      event.preventDefault();
      find.focus();
      find.select();
    }
  }
});

// A form that was sent says so and cannot be sent twice; the server would not act twice either.
document.addEventListener("submit", (event) => {
  const button = event.submitter;
  if (!button || event.target.method !== "post") return;
  if (event.target.dataset.sent) {
    event.preventDefault();
    return;
  }
  event.target.dataset.sent = "yes";
  setTimeout(() => { button.disabled = true; }, 0);
});

// Coming back through history brings a page as it was left: forms may be sent again.
window.addEventListener("pageshow", (event) => {
  if (!event.persisted) return;
  for (const form of document.querySelectorAll("form[data-sent]")) {
    delete form.dataset.sent;
    for (const button of form.querySelectorAll("button[disabled]")) button.disabled = false;
  }
});

document.addEventListener("change", (event) => {
  const follow = event.target.closest("[data-submit-on-change]");
  if (follow) follow.form.requestSubmit();
});

document.addEventListener("htmx:afterSwap", (event) => dressed(event.target));
document.addEventListener("htmx:load", (event) => dressed(event.target));

const apple = /Mac|iPhone|iPad/.test(navigator.platform);
for (const hint of document.querySelectorAll("[data-find-key]")) {
  hint.textContent = apple ? "⌘ K" : "Ctrl K";
}
for (const button of document.querySelectorAll("[data-print]")) {
  button.hidden = false;
  button.addEventListener("click", () => window.print());
}
dressed(document);
listen(document);
