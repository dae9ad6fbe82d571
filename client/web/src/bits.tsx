// Small pieces that several pages show.
import type { ComponentChildren } from "preact";
import { useShared, useNow, type Polled } from "./hooks";
import type { Failure } from "./api";
import { clock, millis, span } from "./units";

/** The head of a page. */
export function Head({ title, children, more }: { title: string; children?: ComponentChildren; more?: ComponentChildren }) {
  return (
    <div class="head">
      <div>
        <h1>{title}</h1>
        {children && <div class="soft">{children}</div>}
      </div>
      {more && <div class="row noprint">{more}</div>}
    </div>
  );
}

export function State({ state }: { state: string }) {
  return <span class={`pill ${state}`}>{state.replace("_", " ")}</span>;
}

/** An instant in the chosen zone. */
export function At({ at }: { at: string | null | undefined }) {
  const { zone } = useShared();
  const now = useNow(60_000);
  if (!at) return <>–</>;
  return <time dateTime={at}>{clock(millis(at), zone, now)}</time>;
}

/** What is missing, since when, and what to do. */
export function Trouble({ polled, what }: { polled: Polled<unknown>; what: string }) {
  const now = useNow(1000);
  const { ahead } = useShared();
  if (!polled.failure) return null;
  const old = polled.data !== undefined && polled.at > 0;
  return (
    <div class="note bad" role="alert">
      <p>
        <b>{what}: {polled.failure.title}.</b> {polled.failure.message}
      </p>
      <p class="small">
        {old ? `What is shown is ${span(now - ahead - polled.at)} old. ` : ""}
        {polled.failure.status === 403 ? "" : "The page asks again by itself. "}
        <button type="button" onClick={polled.again}>Ask now</button>
      </p>
    </div>
  );
}

export function Wrong({ failure }: { failure: Failure | undefined }) {
  if (!failure) return null;
  return (
    <div class="note bad" role="alert">
      <p>
        <b>{failure.title}.</b> {failure.message}
      </p>
    </div>
  );
}

export type Column<T> = { head: string; number?: boolean; cell: (row: T) => ComponentChildren };

/** A table; behind a chart it is folded. */
export function Table<T>({ columns, rows, caption, folded, none }: {
  columns: Column<T>[]; rows: T[]; caption: string; folded?: boolean; none?: string;
}) {
  const table = (
    <div class="scroll" tabIndex={0} role="region" aria-label={caption}>
      <table>
        <thead>
          <tr>{columns.map((column) => <th scope="col" class={column.number ? "n" : ""}>{column.head}</th>)}</tr>
        </thead>
        <tbody>
          {rows.map((row, n) => (
            <tr key={n}>{columns.map((column) => <td class={column.number ? "n" : ""}>{column.cell(row)}</td>)}</tr>
          ))}
        </tbody>
      </table>
      {rows.length === 0 && <p class="soft">{none ?? "Nothing."}</p>}
    </div>
  );
  if (!folded) return table;
  return (
    <details>
      <summary>{caption}</summary>
      {table}
    </details>
  );
}
