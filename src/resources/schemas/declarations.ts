/** What a collection was declared as: one look-up, remembered for a few seconds. */

import { sql } from '../../platform/pg/sql.ts'
import type { WorkspaceScope } from '../../platform/scope.ts'
import { type Scalar, scalarsOf, type TableColumn } from './columns.ts'
import type { SchemaObject } from './language.ts'
import { type Prepared, prepare } from './prepare.ts'

export interface Declaration {
  readonly id: string
  readonly store: 'relational' | 'document'
  readonly mode: 'off' | 'warn' | 'enforce'
  readonly columns: readonly TableColumn[]
  readonly anonReads: boolean
  readonly schema: Prepared
  /** Declared scalar properties: what filters on them are compared as. */
  readonly scalars: ReadonlyMap<string, Scalar>
}

export const memoKey = (collection: string) => `schema/${collection}`

interface DeclarationRow extends Pick<Declaration, 'id' | 'store' | 'mode' | 'columns'> {
  readonly schema: SchemaObject
  readonly anon_reads: boolean
  readonly bytes: number
}

/** @returns undefined where nobody declared the collection */
export function declarationOf(scope: WorkspaceScope, collection: string): Promise<Declaration | undefined> {
  return scope.memo(memoKey(collection), async () => {
    const row = await scope.row<DeclarationRow>(sql`
      select id, store, mode, columns, anon_reads, schema, octet_length(schema::text) as bytes
      from schemas where collection = ${collection}`)
    if (row === undefined) return { value: undefined, bytes: 0 }
    const { id, store, mode, columns, anon_reads, schema, bytes } = row
    const value = {
      id,
      store,
      mode,
      columns,
      anonReads: anon_reads,
      schema: prepare(schema),
      scalars: scalarsOf(schema),
    }
    return { value, bytes: Number(bytes) * HEAP_FACTOR }
  })
}

/** A parsed schema takes several times the room of its text. */
const HEAP_FACTOR = 8

/** Asked again next time: the memo was found to be out of date. */
export function forgetDeclaration(scope: WorkspaceScope, collection: string): void {
  scope.forget(memoKey(collection))
}
