/** Renames fields of documents that there are, and gives values to fields that they lack, when their declaration changes. */

import { type InputError, Problem } from '../../../core/problem.ts'
import { bodyProblem } from '../../operation-helpers.ts'
import { checkFields } from '../document.ts'
import type { FieldChange } from '../postgres/collection-table.ts'
import type { BuiltDeclaration } from './build-declaration.ts'
import type { DeclaredRow } from './declared-tables.ts'
import { evaluateDocument, isPending } from './evaluate-schema.ts'
import { prepare, type SchemaObject } from './schema-language.ts'

/** As they are requested. */
export interface RequestedFieldChanges {
  /** Former names by new names. */
  readonly renamed_from?: Readonly<Record<string, string>> | undefined
  /** Values by names. */
  readonly backfill?: Readonly<Record<string, unknown>> | undefined
}

const propertiesOf = (schema: SchemaObject) => (schema['properties'] ?? {}) as SchemaObject

/**
 * The fields that are to be renamed: new names by former ones. Those that the declaration has by their new names were renamed before.
 * @throws Problem `validation_failed` for a name that cannot be meant; `not_supported` if the documents are in MongoDB
 */
export function renamesOf(
  row: DeclaredRow,
  { renamed_from = {} }: RequestedFieldChanges,
  after: { readonly schema: unknown; readonly inMongo: boolean },
): ReadonlyMap<string, string> {
  const [before, wanted] = [propertiesOf(row.schema), propertiesOf(Object(after.schema))]
  const renames = new Map<string, string>()
  for (const [to, from] of Object.entries(renamed_from)) {
    if (Object.hasOwn(before, to) && !Object.hasOwn(before, from)) continue
    const fault = !Object.hasOwn(wanted, to)
      ? 'is not declared'
      : Object.hasOwn(wanted, from)
        ? `is the new name of ${from}, which is still declared`
        : Object.hasOwn(before, to)
          ? 'was declared already'
          : renames.has(from)
            ? `is another new name of ${from}`
            : undefined
    if (fault !== undefined) throw faultOf('renamed_from', to, fault)
    renames.set(from, to)
  }
  if (renames.size > 0 && after.inMongo)
    throw new Problem('not_supported', {
      detail: 'Documents of this store are in MongoDB, and their fields are not renamed as a whole.',
    })
  return renames
}

const faultOf = (member: 'renamed_from' | 'backfill', field: string, detail: string): Problem =>
  bodyProblem(`/${member}/${field.slice(0, 100)}`, detail, `${member}: ${field.slice(0, 100)} ${detail}.`)

/** The declaration as it would be if its fields had had the new names from the beginning. Rules and conditions have the former ones. */
export function withRenamed(row: DeclaredRow, renames: ReadonlyMap<string, string>): DeclaredRow {
  if (renames.size === 0) return row
  const renamed = (name: string) => renames.get(name) ?? name
  const { properties, required } = row.schema as { properties?: SchemaObject; required?: readonly string[] }
  const schema = {
    ...row.schema,
    ...(properties && {
      properties: Object.fromEntries(
        Object.entries(properties).map(([name, property]) => [renamed(name), property]),
      ),
    }),
    ...(required && { required: required.map(renamed) }),
  }
  return {
    ...row,
    schema,
    columns: row.columns.map((column) => ({ ...column, property: renamed(column.property) })),
    indexes: row.indexes.map((index) => ({ ...index, fields: index.fields.map(renamed) })),
    relations: row.relations.map((relation) => ({ ...relation, field: renamed(relation.field) })),
    exclusions: row.exclusions.map((exclusion) => ({
      ...exclusion,
      fields: exclusion.fields.map(renamed),
      range: exclusion.range.map(renamed),
    })),
    ttl: row.ttl && { ...row.ttl, field: renamed(row.ttl.field) },
  }
}

/**
 * Checks values for documents that lack them.
 * @throws Problem `validation_failed` for a field that is not declared, or must differ from document to document; `schema_violation` for a value
 *   that does not fit; `not_supported` if the documents are in MongoDB
 */
export function checkBackfill(
  { backfill = {} }: RequestedFieldChanges,
  { schema, indexes, references, exclusions }: BuiltDeclaration,
  inMongo: boolean,
): void {
  const properties = propertiesOf(schema)
  const own = new Set([
    ...indexes.filter(({ unique }) => unique).flatMap(({ fields }) => fields),
    ...references.map(({ field }) => field),
    ...exclusions.flatMap(({ fields, range }) => [...fields, ...range]),
  ])
  if (Object.keys(backfill).length > 0 && inMongo)
    throw new Problem('not_supported', {
      detail: 'Documents of this store are in MongoDB, and get no values as a whole.',
      hint: 'Set the field by `update-many`.',
    })
  checkFields(backfill)
  const errors: InputError[] = []
  for (const [name, value] of Object.entries(backfill)) {
    if (!Object.hasOwn(properties, name)) throw faultOf('backfill', name, 'is not declared')
    if (own.has(name))
      throw faultOf(
        'backfill',
        name,
        'is unique, a reference or part of a range, and differs between documents',
      )
    const one = { properties: { [name]: properties[name] }, $defs: schema['$defs'] ?? {} }
    const found = evaluateDocument(prepare(one), { [name]: value })
    const [violation] = isPending(found) ? [{ detail: 'takes too long to be validated' }] : found
    if (violation === undefined) continue
    const detail = `does not match its property: ${violation.detail}`
    errors.push({ in: 'body', name: 'backfill', pointer: `/backfill/${name.slice(0, 100)}`, detail })
  }
  if (errors.length > 0)
    throw new Problem('validation_failed', {
      detail: errors.map((error) => `${error.pointer} ${error.detail}`).join('; '),
      errors: errors.slice(0, 20),
    })
}

/** Changes of the fields of documents, besides those of columns. Documents have all fields that were required before. */
export function fieldChangeOf(
  { schema, mode }: DeclaredRow,
  renames: ReadonlyMap<string, string>,
  { backfill = {} }: RequestedFieldChanges,
): FieldChange {
  const required = mode === 'enforce' ? ((schema['required'] ?? []) as readonly string[]) : []
  return { renames, values: new Map(Object.entries(backfill).filter(([name]) => !required.includes(name))) }
}
