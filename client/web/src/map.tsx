// The map: agents and the links between them, each a bar for each direction that fills with what is reserved.
import { useMemo } from "preact/hooks";
import type { AgentRow, MapDoc, ResourceRow } from "./documents";
import { edges, layout, type Edge } from "./links";
import { amount } from "./units";

const [LEFT, TOP] = [74, 46];
/** The width that is filled, and how far apart columns may be. */
const [WIDTH, CLOSE, WIDE] = [690, 95, 210];
/** The height that a map of many rows is made to fit, and how far apart rows are then, in pixels. */
const [HEIGHT, LEAST, MOST] = [620, 7, 96];

type Ends = { x: number; y: number };

/** One direction of a link: a line beside its middle, filled from where the packets leave. */
function Way({ from, to, row, r }: { from: Ends; to: Ends; row: ResourceRow | undefined; r: number }) {
  const wide = Math.max(1.5, (r / 17) * 7);
  const length = Math.hypot(to.x - from.x, to.y - from.y) || 1;
  const [dx, dy] = [(to.x - from.x) / length, (to.y - from.y) / length];
  const at = (along: number): Ends => ({ x: from.x + dx * along - dy * wide * 0.7, y: from.y + dy * along + dx * wide * 0.7 });
  const [a, b] = [at(r * 1.3), at(length - r * 1.3)];
  const used = row && row.capacity > 0 ? Math.min(1, Math.max(0, 1 - row.free / row.capacity)) : 0;
  const c = { x: a.x + (b.x - a.x) * used, y: a.y + (b.y - a.y) * used };
  return (
    <g>
      <line x1={a.x} y1={a.y} x2={b.x} y2={b.y} stroke="var(--free)" stroke-width={wide} stroke-linecap="round" />
      {used > 0 && (
        <line x1={a.x} y1={a.y} x2={c.x} y2={c.y} stroke={row?.missing ? "var(--broken)" : "var(--c0)"} stroke-width={wide} stroke-linecap="round" />
      )}
      {row && <title>{`${row.resource}: ${amount(row.capacity - row.free, row.unit)} of ${amount(row.capacity, row.unit)} reserved now`}</title>}
    </g>
  );
}

export function NetworkMap({ map, resources, agents }: { map: MapDoc; resources: ResourceRow[]; agents: AgentRow[] }) {
  // A map that is the same is not laid out again.
  const shape = JSON.stringify(map.networks.map((network) => network.ends.map((end) => [end.agent, end.interface])));
  const names = useMemo(() => agents.map((agent) => agent.agent), [JSON.stringify(agents.map((agent) => agent.agent))]);
  const { all, places, columns, rows } = useMemo(() => {
    const all = edges(map);
    return { all, ...layout(names, all) };
  }, [shape, names]);
  const of = new Map(resources.map((row) => [row.resource, row]));
  const step = Math.min(WIDE, Math.max(CLOSE, WIDTH / Math.max(1, columns - 1)));
  const apart = Math.min(MOST, Math.max(LEAST, HEIGHT / rows));
  const r = Math.min(17, Math.max(2.5, apart / 3.4));
  const named = apart > 40;
  const at = new Map(places.map((place) => [place.agent, { x: LEFT + place.x * step, y: TOP + place.y * apart }]));
  const away = new Set(agents.filter((agent) => agent.away).map((agent) => agent.agent));
  const [width, height] = [2 * LEFT + (columns - 1) * step, 2 * TOP + (rows - 1) * apart];
  const rate = ({ from }: Edge) => (from.rate_wire_bps ? amount(from.rate_wire_bps, "bit/s") : "");
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Map of the network">
      <svg viewBox={`0 0 ${width} ${height}`} width={width} height={height} role="img" aria-label={`${names.length} agents, ${all.length} links; the table below says the same`}>
        {all.map((edge) => {
          const [from, to] = [at.get(edge.from.agent), at.get(edge.to.agent)];
          if (!from || !to) return null;
          return (
            <g>
              <Way from={from} to={to} row={of.get(edge.from.resource ?? "")} r={r} />
              <Way from={to} to={from} row={of.get(edge.to.resource ?? "")} r={r} />
              {named && <text x={(from.x + to.x) / 2} y={(from.y + to.y) / 2 - 13} text-anchor="middle">{rate(edge)}</text>}
            </g>
          );
        })}
        {places.map(({ agent }) => {
          const { x, y } = at.get(agent) ?? { x: 0, y: 0 };
          const gone = away.has(agent);
          return (
            <g>
              <circle cx={x} cy={y} r={r} fill="var(--sheet)" stroke={gone ? "var(--broken)" : "var(--accent)"} stroke-width={named ? 3 : 1.5} stroke-dasharray={gone ? "5 4" : "none"} />
              <circle cx={x} cy={y} r={r / 2.8} fill={gone ? "var(--broken)" : "var(--active)"} />
              {named || gone ? <text class="name" x={x} y={y + r + 15} text-anchor="middle">{agent}{gone ? " (away)" : ""}</text> : <title>{agent}</title>}
            </g>
          );
        })}
      </svg>
    </div>
  );
}
