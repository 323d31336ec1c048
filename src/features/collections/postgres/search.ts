/** Compiles searches, and what row-level security lets PostgreSQL do by an index (0012-search.sql). */

import { randomUUID } from 'node:crypto'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { Problem } from '../../../core/problem.ts'
import { MAKE_OPERATORS } from '../../../infra/postgres/search-operators.ts'
import { commas, Sql, sql } from '../../../infra/postgres/sql.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import { prefixQuery, type Search, type ShownSearch } from '../query/search.ts'
import { indexOf } from '../query-indexes.ts'
import type { Index } from '../schemas/api-types.ts'
import type { Collection, Stored } from '../store.ts'
import { tableOf } from './table.ts'

const OPERATOR_CLASSES = {
  text: { platform: sql`tenon.words_ops`, ordinary: sql`pg_catalog.tsvector_ops` },
  array: { platform: sql`tenon.json_ops`, ordinary: sql`pg_catalog.jsonb_path_ops` },
  trigram: { platform: sql`tenon.patterns_ops`, ordinary: sql`public.gist_trgm_ops` },
} as const

/** The operator class that an index is built with: that of the platform, if it is there. */
export const operatorClassOf = (
  kind: keyof typeof OPERATOR_CLASSES,
  { leakproof }: Pick<Index, 'leakproof'>,
): Sql => OPERATOR_CLASSES[kind][leakproof ? 'platform' : 'ordinary']

/**
 * Compiles the search of a query on a collection that has one.
 * @throws Problem `not_supported` if there are too many documents for a search without an index
 */
export async function searchIn(
  scope: WorkspaceScope,
  collection: Collection,
  search: ShownSearch | undefined,
): Promise<CompiledSearch | undefined> {
  if (search === undefined) return undefined
  const index = indexOf(collection, 'text')
  if (index.leakproof !== true) await requireFewDocuments(scope, tableOf(collection))
  return compileSearch(search, index)
}

/** The condition of a search, if there is one. */
export const found = (searched: CompiledSearch | undefined): Sql => searched?.condition ?? sql`true`

const KINDS: Readonly<Record<Search['kind'], Sql>> = {
  wfts: sql`websearch_to_tsquery`,
  plfts: sql`plainto_tsquery`,
  phfts: sql`phraseto_tsquery`,
  prefix: sql`to_tsquery`,
}

/** Pieces of a statement on the table of the declaration. */
export interface CompiledSearch {
  readonly condition: Sql
  readonly score: Sql
  /** The end of a select list: the score, unless it gives the order, and the highlights. */
  readonly shown: Sql
  /** Reads the highlights of a row, if they are shown. */
  readonly highlightOf: (row: Readonly<Record<string, unknown>>) => Pick<Stored, 'highlight'>
}

function compileSearch({ kind, text, byScore, shown = [] }: ShownSearch, index: Index): CompiledSearch {
  const language = Sql.shared(`pg_catalog.${index.language}`)
  const words = Sql.shared(kind === 'prefix' ? prefixQuery(text) : text)
  const query = sql`${KINDS[kind]}(${language}::regconfig, ${words}::text)`
  // Once for a statement, and not for each document, where the planner does not know the words.
  const queryOnce = sql`(select ${query})`
  // A text cannot have a mark that it does not know, so whatever it has is escaped.
  const [start, stop] = [`s${randomUUID()}`, `e${randomUUID()}`]
  const options = Sql.shared(`StartSel=${start}, StopSel=${stop}`)
  const parts = index.columns.map((column, at) => {
    const beginning = sql`left(${Sql.identifier(column)}, ${COLLECTION_LIMITS.highlightCharsMax})`
    return sql`ts_headline(${language}::regconfig, ${beginning}, ${queryOnce}, ${options}::text) as ${Sql.identifier(`highlight_${at}`)}`
  })
  const isMarked = shown.includes('_highlight')
  const score = sql`ts_rank_cd(search, ${queryOnce}, 32)::double precision`
  const columns = [
    ...(shown.includes('_score') && byScore !== true ? [sql`${score} as score`] : []),
    ...(isMarked ? parts : []),
  ]
  return {
    condition: sql`search ${index.leakproof ? sql`operator(tenon.=@@)` : sql`operator(pg_catalog.@@)`} ${query}`,
    score,
    shown: columns.length === 0 ? sql`` : sql`, ${commas(columns)}`,
    highlightOf: (row) => {
      if (!isMarked) return {}
      const marks = index.fields.flatMap((field, at): [string, string][] => {
        const marked = row[`highlight_${at}`]
        return typeof marked === 'string' && marked.includes(start)
          ? [[field, inMarks(marked, start, stop)]]
          : []
      })
      return { highlight: Object.fromEntries(marks) }
    },
  }
}

const ESCAPES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

const inMarks = (text: string, start: string, stop: string): string =>
  text
    .replaceAll(/[&<>"']/g, (sign) => ESCAPES[sign] ?? '')
    .replaceAll(start, '<mark>')
    .replaceAll(stop, '</mark>')

/**
 * Row-level security keeps PostgreSQL from an index that is not leakproof, so the documents are read one by one.
 * @throws Problem `not_supported` if they are too many for that
 */
async function requireFewDocuments(
  scope: WorkspaceScope,
  { name, own }: { readonly name: Sql; readonly own: Sql },
): Promise<void> {
  const max = COLLECTION_LIMITS.searchWithoutIndexMax
  const [counted] = await scope.rows<{ n: string }>(
    sql`select count(*) as n from (select from ${name} where ${own} limit ${max + 1}) found`,
  )
  if (Number(counted?.n) <= max) return
  throw new Problem('not_supported', {
    detail: `The collection has more than ${max} documents, and this installation searches without an index.`,
    adminHint: `A superuser of the database runs once: ${MAKE_OPERATORS}. Then remove \`search\` from the declaration, and declare it again.`,
  })
}
