// What Streamlit calls: once when the component appears, and again whenever Python sends data or the theme changes.

import { Timeline } from "./timeline.js";

const MOUNTED = new WeakMap();

export default function mount(component) {
  const { parentElement, data } = component;
  if (!data) return undefined;
  let timeline = MOUNTED.get(parentElement);
  if (!timeline) {
    timeline = new Timeline(parentElement.querySelector(".timeline-host") ?? parentElement);
    timeline.setMode("pan");
    MOUNTED.set(parentElement, timeline);
  }
  // While Python works the page fades what it made before. Here what is drawn stays true, and is only getting finer.
  const place = (parentElement.host ?? parentElement).closest?.('[data-testid="stElementContainer"]');
  place?.style.setProperty("opacity", "1", "important");
  timeline.parts.root.style.height = `${data.height}px`;
  timeline.update(component);
  const { updates } = timeline;
  return () => {
    if (timeline.updates !== updates) return; // called late for data that has been replaced
    timeline.destroy();
    MOUNTED.delete(parentElement);
  };
}
