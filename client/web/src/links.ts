// The map's geometry: agents in layers by their distance from one end of the network, so that ways run from left to right.
import type { MapDoc, NetworkEnd } from "./documents";

export type Place = { agent: string; x: number; y: number };
export type Edge = { network: string; from: NetworkEnd; to: NetworkEnd };

/** Each pair of interfaces on a network. Of a network with many agents the first is drawn as its middle. */
export function edges(map: MapDoc): Edge[] {
  return map.networks.flatMap(({ network, ends }) => {
    const agents = ends.filter((end, n) => ends.findIndex((other) => other.agent === end.agent) === n);
    const [from, ...others] = agents;
    return from ? others.map((to) => ({ network, from, to })) : [];
  });
}

function distances(start: string, near: Map<string, Set<string>>): Map<string, number> {
  const found = new Map([[start, 0]]);
  const queue = [start];
  for (let n = 0; n < queue.length; n++) {
    const at = queue[n] as string;
    for (const next of near.get(at) ?? []) {
      if (found.has(next)) continue;
      found.set(next, (found.get(at) ?? 0) + 1);
      queue.push(next);
    }
  }
  return found;
}

/** Where each agent is drawn, in steps of one; and how many columns and rows that takes. */
export function layout(agents: string[], all: Edge[]): { places: Place[]; columns: number; rows: number } {
  const near = new Map(agents.map((agent) => [agent, new Set<string>()]));
  for (const { from, to } of all) {
    near.get(from.agent)?.add(to.agent);
    near.get(to.agent)?.add(from.agent);
  }
  const left = new Set(agents);
  const places: Place[] = [];
  let [columns, top] = [1, 0];
  while (left.size) {
    const any = left.values().next().value as string;
    // The farthest of any agent is an end; of two ends the one that is named first in the broker's file.
    const far = last(distances(any, near));
    const other = last(distances(far, near));
    const start = agents.indexOf(far) < agents.indexOf(other) ? far : other;
    const layers: string[][] = [];
    for (const [agent, distance] of distances(start, near)) {
      (layers[distance] ??= []).push(agent);
      left.delete(agent);
    }
    const rows = Math.max(...layers.map((layer) => layer.length));
    const height = new Map<string, number>();
    layers.forEach((layer, x) => {
      const pull = (agent: string) => {
        const known = [...(near.get(agent) ?? [])].map((to) => height.get(to)).filter((y) => y !== undefined);
        return known.length ? known.reduce((sum, y) => sum + y, 0) / known.length : 0;
      };
      const sorted = layer.map((agent) => ({ agent, pull: pull(agent) })).sort((a, b) => a.pull - b.pull);
      sorted.forEach(({ agent }, n) => {
        const y = top + ((n + 0.5) * rows) / layer.length - 0.5;
        height.set(agent, y);
        places.push({ agent, x, y });
      });
    });
    columns = Math.max(columns, layers.length);
    top += rows;
  }
  return { places, columns, rows: Math.max(top, 1) };
}

function last(found: Map<string, number>): string {
  return [...found.keys()].pop() as string;
}
