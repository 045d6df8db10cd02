// How does a value get to the clipboard?  Buttons stay hidden where it cannot.
export const offerCopies = (root) => {
  if (!navigator.clipboard) return;
  for (const button of root.querySelectorAll("button[data-copy][hidden]")) button.hidden = false;
};

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-copy]");
  if (!button) return;
  const label = button.querySelector("[aria-hidden]") ?? button;
  const before = label.textContent;
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
    label.textContent = "Copied";
  } catch {
    label.textContent = "Failed";
  }
  setTimeout(() => { label.textContent = before; }, 1500);
});
