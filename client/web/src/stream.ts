// Server-sent events (HTML standard, section 9.2.6), read by fetch: a page may send fields and see the status.

/** Reads a stream until it ends or is given up; tells each event's name, data and id. */
export async function follow(path: string, headers: Record<string, string>, signal: AbortSignal, began: () => void, tell: (kind: string, data: string, id: string) => void): Promise<void> {
  const response = await fetch(path, { headers, signal });
  if (!response.ok || !response.body) throw new Error(String(response.status));
  began();
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    rest += value;
    const blocks = rest.split("\n\n");
    rest = blocks.pop() ?? "";
    for (const block of blocks) {
      const fields = new Map<string, string>();
      for (const line of block.split("\n")) {
        const colon = line.indexOf(":");
        if (colon > 0) fields.set(line.slice(0, colon), line.slice(colon + 1).trimStart());
      }
      const [kind, data] = [fields.get("event"), fields.get("data")];
      if (kind && data) tell(kind, data, fields.get("id") ?? "");
    }
  }
}
