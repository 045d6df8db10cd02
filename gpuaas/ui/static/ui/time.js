// How long ago is it, and when exactly in the reader's own zone?
const exact = new Intl.DateTimeFormat(undefined, {
  dateStyle: "medium",
  timeStyle: "long",
});
const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];

const relative = (seconds) => {
  const size = Math.abs(seconds);
  if (size < 5) return "now";
  const [unit, length] = units.find(([, each]) => size >= each);
  const count = Math.floor(size / length);
  return seconds > 0 ? `${count} ${unit} ago` : `in ${count} ${unit}`;
};

const show = (element) => {
  const at = new Date(element.dateTime);
  if (Number.isNaN(at.getTime())) return;
  const text = relative((Date.now() - at.getTime()) / 1000);
  if (element.textContent !== text) element.textContent = text;
};

export const showTimes = (root) => {
  for (const element of root.querySelectorAll("time[datetime]")) {
    const at = new Date(element.dateTime);
    if (!Number.isNaN(at.getTime())) element.title = exact.format(at);
    show(element);
  }
};

setInterval(() => {
  if (!document.hidden) document.querySelectorAll("time[datetime]").forEach(show);
}, 5000);
