// The map: agents and the links between them, each a bar for each direction that fills with what is reserved.
import { useMemo } from "preact/hooks";
import type { AgentRow, MapDoc, ResourceRow } from "./documents";
import { edges, layout, type Edge } from "./links";
import { amount } from "./units";

const [STEP, ROW, LEFT, TOP, R] = [210, 96, 74, 46, 17];

type Ends = { x: number; y: number };

/** One direction of a link: a line beside its middle, filled from where the packets leave. */
function Way({ from, to, row }: { from: Ends; to: Ends; row: ResourceRow | undefined }) {
  const length = Math.hypot(to.x - from.x, to.y - from.y) || 1;
  const [dx, dy] = [(to.x - from.x) / length, (to.y - from.y) / length];
  const at = (along: number): Ends => ({ x: from.x + dx * along - dy * 5, y: from.y + dy * along + dx * 5 });
  const [a, b] = [at(R + 5), at(length - R - 5)];
  const used = row && row.capacity > 0 ? Math.min(1, Math.max(0, 1 - row.free / row.capacity)) : 0;
  const c = { x: a.x + (b.x - a.x) * used, y: a.y + (b.y - a.y) * used };
  return (
    <g>
      <line x1={a.x} y1={a.y} x2={b.x} y2={b.y} stroke="var(--free)" stroke-width="7" stroke-linecap="round" />
      {used > 0 && (
        <line x1={a.x} y1={a.y} x2={c.x} y2={c.y} stroke={row?.missing ? "var(--broken)" : "var(--c0)"} stroke-width="7" stroke-linecap="round" />
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
  const at = new Map(places.map((place) => [place.agent, { x: LEFT + place.x * STEP, y: TOP + place.y * ROW }]));
  const away = new Set(agents.filter((agent) => agent.away).map((agent) => agent.agent));
  const [width, height] = [2 * LEFT + (columns - 1) * STEP, 2 * TOP + (rows - 1) * ROW];
  const rate = ({ from }: Edge) => (from.rate_wire_bps ? amount(from.rate_wire_bps, "bit/s") : "");
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Map of the network">
      <svg viewBox={`0 0 ${width} ${height}`} width={width} height={height} role="img" aria-label={`${names.length} agents, ${all.length} links; the table below says the same`}>
        {all.map((edge) => {
          const [from, to] = [at.get(edge.from.agent), at.get(edge.to.agent)];
          if (!from || !to) return null;
          return (
            <g>
              <Way from={from} to={to} row={of.get(edge.from.resource ?? "")} />
              <Way from={to} to={from} row={of.get(edge.to.resource ?? "")} />
              <text x={(from.x + to.x) / 2} y={(from.y + to.y) / 2 - 13} text-anchor="middle">{rate(edge)}</text>
            </g>
          );
        })}
        {places.map(({ agent }) => {
          const { x, y } = at.get(agent) ?? { x: 0, y: 0 };
          const gone = away.has(agent);
          return (
            <g>
              <circle cx={x} cy={y} r={R} fill="var(--sheet)" stroke={gone ? "var(--broken)" : "var(--accent)"} stroke-width="3" stroke-dasharray={gone ? "5 4" : "none"} />
              <circle cx={x} cy={y} r={6} fill={gone ? "var(--broken)" : "var(--active)"} />
              <text class="name" x={x} y={y + R + 15} text-anchor="middle">{agent}{gone ? " (away)" : ""}</text>
            </g>
          );
        })}
      </svg>
    </div>
  );
}
