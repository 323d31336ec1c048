/** Reads the declaration of a collection and caches it for a few seconds. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { cached } from '../../../access/scope-cache.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import {
  type Check,
  type DeclaredCheck,
  type DeclaredExclusion,
  readChecks,
} from '../constraints/constraint.ts'
import { type DeclaredExpiry, type Expiry, expiryOf } from '../expiry/expiry.ts'
import type { Reference } from '../references/reference.ts'
import { type Access, type AccessRules, readAccess } from '../rules/access.ts'
import type { Index } from './api-types.ts'
import type { Format } from './canonical-text.ts'
import { type Defaults, defaultsOf, formatsOf, type Scalar, scalarsOf, type TableColumn } from './columns.ts'
import { type Prepared, prepare, type SchemaObject } from './schema-language.ts'

export interface Declaration {
  readonly id: string
  readonly collection: string
  /** The name of its table. It changes with the declaration, so a stale name finds no table. */
  readonly relation: string
  readonly store: 'relational' | 'document'
  readonly mode: 'off' | 'warn' | 'enforce'
  readonly columns: readonly TableColumn[]
  readonly indexes: readonly Index[]
  /** What anon keys and users may do, as far as the declaration says it. */
  readonly rules: AccessRules
  /** The same as it was declared. */
  readonly access: Access
  /** The fields that hold ids of documents of other collections. */
  readonly references: readonly Reference[]
  /** The conditions that each document must meet. */
  readonly checks: readonly DeclaredCheck[]
  /** The ranges that do not overlap. */
  readonly exclusions: readonly DeclaredExclusion[]
  /** Undefined if documents do not expire. */
  readonly expiry: DeclaredExpiry | undefined
  readonly schema: Prepared
  /** Declared scalar properties, by which filters on them are compared. */
  readonly scalars: ReadonlyMap<string, Scalar>
  /** The formats of those texts that are compared by their format. */
  readonly formats: ReadonlyMap<string, Format>
  /** The values of absent members; see `withDefaults`. */
  readonly defaults: Defaults
}

export const cacheKey = (collection: string) => `schema/${collection}`

/** The row of a declaration, as `DECLARATION` selects it. */
export interface DeclarationRow
  extends Pick<
    Declaration,
    'id' | 'collection' | 'relation' | 'store' | 'mode' | 'columns' | 'indexes' | 'exclusions'
  > {
  readonly schema: SchemaObject
  /** As they were declared. */
  readonly checks: readonly Check[]
  readonly ttl: Expiry | null
  readonly access: Access
  readonly relations: readonly Reference[]
}
export const DECLARATION = sql`id, collection, relation, store, mode, columns, indexes, access, schema, relations, checks, exclusions, ttl`

export function toDeclaration(row: DeclarationRow): Declaration {
  const { id, collection, relation, store, mode, columns, indexes, access, schema, relations } = row
  const types = { scalars: scalarsOf(schema), formats: formatsOf(schema) }
  return {
    ...{ id, collection, relation, store, mode, columns, indexes, ...types },
    rules: readAccess(access, collection),
    access,
    references: relations,
    checks: readChecks(row.checks, types),
    exclusions: row.exclusions,
    expiry: row.ttl === null ? undefined : expiryOf(row.ttl),
    schema: prepare(schema),
    defaults: defaultsOf(schema),
  }
}

const KEEPING = new WeakMap<Declaration, Declaration>()

/** The same declaration for what the platform does with documents that have expired as well; the same value each time. */
export function withoutExpiry(declared: Declaration): Declaration {
  if (declared.expiry === undefined) return declared
  const known = KEEPING.get(declared)
  if (known !== undefined) return known
  const keeping = { ...declared, expiry: undefined }
  KEEPING.set(declared, keeping)
  return keeping
}

/** @returns undefined if the collection is not declared */
export function findDeclaration(scope: WorkspaceScope, collection: string): Promise<Declaration | undefined> {
  return cached(scope, cacheKey(collection), async () => {
    const row = await scope.row<DeclarationRow & { readonly bytes: number }>(sql`
      select ${DECLARATION}, octet_length(schema::text) as bytes from schemas where collection = ${collection}`)
    if (row === undefined) return { value: undefined, bytes: 0 }
    return { value: toDeclaration(row), bytes: Number(row.bytes) * HEAP_FACTOR }
  })
}

/** A parsed schema takes several times the memory of its text. */
const HEAP_FACTOR = 8
