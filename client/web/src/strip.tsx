// A strip that moves: asked, admitted, installed and measured over the last minutes, in a ring of fixed length.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { amount, clock } from "./units";

export type Reading = { at: number; values: (number | null)[] };

const NAMES = ["asked", "admitted", "installed", "measured"];
const COLOURS = ["--c5", "--c0", "--c3", "--c1"];

export function Strip({ readings, unit, zone }: { readings: Reading[]; unit: string; zone: string }) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  useEffect(() => {
    const at = place.current;
    if (!at) return;
    const style = getComputedStyle(document.documentElement);
    const colour = (name: string) => style.getPropertyValue(name).trim();
    const axis = { stroke: colour("--soft"), grid: { stroke: colour("--faint"), width: 1 }, ticks: { show: false }, font: "12px system-ui" };
    const options: uPlot.Options = {
      width: at.clientWidth || 600,
      height: 220,
      cursor: { drag: { x: false, y: false } },
      legend: { show: false },
      scales: { y: { range: (_, __, most) => [0, Math.max(most * 1.15, 1e-9)] } },
      axes: [
        { ...axis, space: 110, values: (_, splits) => splits.map((s) => clock(s * 1000, zone, s * 1000)) },
        { ...axis, size: 92, values: (_, splits) => splits.map((s) => amount(s, unit)) },
      ],
      series: [
        {},
        ...NAMES.map((label, n) => ({
          label,
          stroke: colour(COLOURS[n] ?? ""),
          width: n === 3 ? 2.5 : 2,
          points: { show: false },
          ...(n === 0 ? { dash: [5, 5] } : {}),
          ...(n === 3 ? { fill: `${colour(COLOURS[n] ?? "")}33` } : {}),
        })),
      ],
    };
    plot.current = new uPlot(options, [[], [], [], [], []], at);
    const resized = new ResizeObserver(() => plot.current?.setSize({ width: at.clientWidth, height: 220 }));
    resized.observe(at);
    return () => {
      resized.disconnect();
      plot.current?.destroy();
    };
  }, [unit, zone]);
  useEffect(() => {
    const columns = NAMES.map((_, n) => readings.map((reading) => reading.values[n] ?? null));
    plot.current?.setData([readings.map((reading) => reading.at / 1000), ...columns] as uPlot.AlignedData);
  }, [readings, unit, zone]);
  return <div class="plot" ref={place} aria-hidden="true" />;
}

export const KEY = NAMES.map((name, n) => ({ name, colour: `var(${COLOURS[n]})` }));
