/** Reads and stores whole collections for archives: documents keep their ids, versions, times and owners, and nobody is told. */

import Type, { type Static } from 'typebox'
import { Compile } from 'typebox/compile'
import type { WorkspaceScope } from '../../access/scope.ts'
import { CORE_LIMITS } from '../../core/limits.ts'
import { Problem } from '../../core/problem.ts'
import { hiddenIn } from '../../core/text/visible-text.ts'
import { CpuBudget } from '../../infra/cpu-budget.ts'
import { allPages } from '../operation-helpers.ts'
import { checkRestored } from './check-changes.ts'
import { listCollections } from './collections-api.ts'
import { type Document, type Fields, toDocument } from './document.ts'
import { COLLECTION_LIMITS } from './limits.ts'
import { ALL, BY_ID } from './query/filter.ts'
import { withCollection, withExpired } from './resolve-store.ts'
import { type Collection, problemOf, type Restored, type Stored } from './store.ts'

/** The names of all collections, in their order. @param service scope with the rights of a service key */
export async function* collectionNames(service: WorkspaceScope): AsyncGenerator<string> {
  const read = ({ after }: { readonly after?: string }) =>
    listCollections.run(
      service,
      listCollections.parse({ page_size: CORE_LIMITS.pageItemsMax, ...(after && { page_after: after }) }),
    )
  for await (const { name } of allPages(read)) yield name
}

/**
 * All documents of a collection in the order of their ids, as the API shows them. Those that have expired are there, too: others may
 * refer to them.
 * @param service scope with the rights of a service key; of a snapshot, for documents of one moment
 */
export async function* allDocuments(service: WorkspaceScope, name: string): AsyncGenerator<Document> {
  let size: number = COLLECTION_LIMITS.exportFirstDocuments
  let after: string | undefined
  for (;;) {
    const { rows, limit } = await readFitting(service, name, { after, size })
    yield* rows.map(toDocument)
    const last = rows.at(-1)
    if (last === undefined || rows.length < limit) return
    after = last.id
    size = nextSize(rows)
  }
}

/** Repeats a page that is too large with half as many documents. */
async function readFitting(
  service: WorkspaceScope,
  name: string,
  { after, size: limit }: { readonly after: string | undefined; readonly size: number },
): Promise<{ rows: Stored[]; limit: number }> {
  const query = { filter: ALL, order: BY_ID, limit, ...(after !== undefined && { after: [after] }) }
  try {
    return await withCollection(service, name, ['read'], async (collection, inside) => {
      const all = withExpired(inside, collection)
      const { rows } = await all.store.list(inside, all, query)
      return { rows, limit }
    })
  } catch (error) {
    if (limit === 1 || !(error instanceof Problem && error.code === 'output_too_large')) throw error
    return readFitting(service, name, { after, size: Math.ceil(limit / 2) })
  }
}

/** As many documents as fill a page, if the next ones are as large as the last one of this page. */
function nextSize(rows: readonly Stored[]): number {
  const bytes = JSON.stringify(rows.at(-1)?.fields ?? {}).length
  const fit = Math.floor(COLLECTION_LIMITS.exportPageBytes / Math.max(bytes, 1))
  return Math.max(1, Math.min(fit, COLLECTION_LIMITS.exportDocumentsMax))
}

/** A line of an archive, as {@link allDocuments} has it. */
const SYSTEM = Compile(
  Type.Object({
    id: Type.String({ pattern: '^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$' }),
    _version: Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }),
    _created_at: Type.String({ format: 'date-time', pattern: 'Z$' }),
    _updated_at: Type.String({ format: 'date-time', pattern: 'Z$' }),
    _owner: Type.Optional(Type.String({ minLength: 1, maxLength: CORE_LIMITS.subjectCharsMax })),
  }),
)
type Line = Fields & Static<ReturnType<typeof SYSTEM.Type>>

/** A line that cannot be stored. */
export interface RefusedLine {
  /** From 0 on. */
  readonly index: number
  readonly problem: Problem
}

/**
 * Stores documents as an archive has them. Documents whose id exists stay as they are, so that it may be repeated.
 * @param ownerOf the owner in this workspace of one that the archive names
 * @returns the first document that cannot be stored: then some before it may be
 * @throws Problem `quota_exceeded`, `dependency_unavailable`
 */
export async function restoreDocuments(
  service: WorkspaceScope,
  name: string,
  lines: readonly Fields[],
  ownerOf: (named: string) => string,
): Promise<RefusedLine | undefined> {
  return withCollection(service, name, ['create'], async (collection, inside) => {
    const checked = await checkLines(inside, collection, lines, ownerOf)
    if ('problem' in checked) return checked
    const restored = await collection.store.restore(inside, collection, checked)
    return 'made' in restored ? undefined : { index: 0, problem: problemOf(restored) }
  })
}

async function checkLines(
  service: WorkspaceScope,
  collection: Collection,
  lines: readonly Fields[],
  ownerOf: (named: string) => string,
): Promise<Restored[] | RefusedLine> {
  const budget = new CpuBudget(Number.POSITIVE_INFINITY)
  const restored: Restored[] = []
  for (const [index, line] of lines.entries()) {
    try {
      restored.push(await checkLine(service, collection, line, { budget, ownerOf }))
    } catch (error) {
      if (!(error instanceof Problem) || !error.isFinal) throw error
      return { index, problem: error }
    }
    await budget.yield()
  }
  return restored
}

/** Checks a line of an archive, or of an import that keeps what the platform sets. @throws Problem */
export async function checkLine(
  service: WorkspaceScope,
  collection: Collection,
  line: Fields,
  { budget, ownerOf }: { readonly budget: CpuBudget; readonly ownerOf: (named: string) => string },
): Promise<Restored> {
  if (!SYSTEM.Check(line)) {
    const [first] = SYSTEM.Errors(line)
    throw new Problem('validation_failed', { detail: `${first?.instancePath} ${first?.message}` })
  }
  const {
    id,
    _version: version,
    _created_at: created_at,
    _updated_at: updated_at,
    _owner,
    _warnings,
    ...data
  } = line as unknown as Line
  const isOwned = _owner !== undefined
  if (isOwned && (collection.declared === undefined || hiddenIn(_owner) !== undefined))
    throw new Problem('validation_failed', {
      detail: '/_owner is not the id of a user, or the collection is not declared',
    })
  const { content } = await checkRestored(service, collection, { id, data, budget })
  return {
    collection,
    id,
    content,
    version,
    created_at,
    updated_at,
    ...(isOwned && { owner: ownerOf(_owner) }),
  }
}
