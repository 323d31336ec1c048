/** One page of a query: the order made total, the cursor opened, the extra row made into the next one. */

import type { CountedPage } from '../../core/page.ts'
import { Problem } from '../../core/problem.ts'
import type { WorkspaceScope } from '../../platform/scope.ts'
import type { Declaration } from '../schemas/declarations.ts'
import { digestOf, readCursor, valuesOf, writeCursor } from './cursor.ts'
import { asDeclared } from './declared.ts'
import { type Shown, toDocument } from './fields.ts'
import { type Filter, type OrderKey, type Path, pathsOf, pathText } from './grammar/filter.ts'
import { project, type Selection } from './grammar/select.ts'
import type { Count, Query } from './store.ts'
import { inCollection } from './stores.ts'

export interface Asked {
  readonly filter: Filter
  /** Perhaps none; `id` is added. */
  readonly order: readonly OrderKey[]
  readonly selection: Selection | undefined
  readonly size: number
  readonly after: string | undefined
  readonly count: Count | undefined
}

/** @throws Problem where the cursor does not fit, or a store refuses the query */
export async function pageOf(scope: WorkspaceScope, name: string, asked: Asked): Promise<CountedPage<Shown>> {
  const { filter, selection, size, count } = asked
  const order = totalOrder(asked.order)
  const digest = digestOf(name, filter, order)
  const after = asked.after === undefined ? undefined : readCursor(scope, digest, asked.after)
  const query = {
    ...{ filter, order, limit: size + 1 },
    ...(after !== undefined && { after }),
    ...(selection !== undefined && { selected: [...selection.keys()] }),
    ...(count !== undefined && { count }),
  }
  const { rows, total } = await inCollection(scope, name, ['read'], ({ store, collection }) =>
    store.list(scope, collection, asDeclared(query, collection.declared)).catch((error: unknown) => {
      throw explained(error, query, collection.declared)
    }),
  )
  const shown = rows.slice(0, size)
  const last = shown.at(-1)
  const more = rows.length > size && last !== undefined
  return {
    data: shown.map((stored) => project(toDocument(stored), selection)),
    page: {
      size,
      next: more ? writeCursor(scope, digest, valuesOf(last, order)) : null,
      has_more: more,
      ...(total !== undefined && { total }),
    },
  }
}

/** A scan that took too long: which fields an index would help that is not there yet. */
function explained(error: unknown, { filter, order }: Query, declared: Declaration | undefined): unknown {
  if (!(error instanceof Problem && error.code === 'query_timeout')) return error
  const paths = [...pathsOf(filter), ...order.map(({ path }) => path)].filter((path) => path.length === 1)
  const first = new Set(declared?.indexes.map(({ fields }) => fields[0]))
  const fields = [...new Set(paths.flat())].filter((name) => !OURS.test(name) && !first.has(name))
  const named = fields.map((name) => pathText([name])).join(', ')
  const hint =
    fields.length === 0
      ? 'Narrow it: the fields that it uses have an index, or cannot have one.'
      : `Narrow it, or declare the collection with an index on ${named} (POST /v1/schemas).`
  return new Problem('query_timeout', { hint, cause: error.cause })
}

/** Fields that no declaration has. */
const OURS = /^(id$|_)/

/** Each path once and up to the first `id`, or with one in the last key's direction: no two documents are equal. */
function totalOrder(asked: readonly OrderKey[]): OrderKey[] {
  const order = asked.filter(({ path }, index) => asked.findIndex((key) => same(key.path, path)) === index)
  const at = order.findIndex(({ path }) => same(path, ['id']))
  if (at >= 0) return order.slice(0, at + 1)
  return [...order, { path: ['id'], descending: asked.at(-1)?.descending ?? false, nullsFirst: false }]
}

const same = (a: Path, b: Path) => a.length === b.length && a.every((name, index) => name === b[index])
