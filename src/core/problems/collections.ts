/** What queries, schemas and documents of collections can be refused for. */

import type { Row } from './row.ts'

export const COLLECTIONS = {
  cursor_invalid: {
    status: 400,
    title: 'The page cursor is not one of ours',
    help: 'Pass `page.next` unchanged.',
  },
  cursor_mismatch: {
    status: 400,
    title: 'The page cursor belongs to another query',
    help: 'Keep collection, filters and order while you turn pages; begin without a cursor.',
  },
  cursor_too_large: {
    status: 400,
    title: 'The page cannot be continued',
    help: 'Order by shorter fields.',
  },
  filter_invalid: { status: 400, title: 'A filter cannot be read', help: 'See `errors`.' },
  filter_operator_missing: {
    status: 400,
    title: 'A filter has no operator',
    help: 'Write `field=eq.value`.',
  },
  filter_operator_unknown: {
    status: 400,
    title: 'A filter has an unknown operator',
    help: 'Operators: eq, neq, gt, gte, lt, lte, in, like, ilike, is, isdistinct, exists, cs, cd, ov, json_path_eq; `not.` before any.',
  },
  filter_null_operator: {
    status: 400,
    title: 'null has an operator of its own',
    help: 'Use `is.null` or `is.not_null`; the word itself is `eq."null"`.',
  },
  filter_type_mismatch: {
    status: 400,
    title: 'A filter value has the wrong type',
    help: 'Send a value of the type that `detail` names.',
  },
  filter_too_large: {
    status: 400,
    title: 'The query has too many parts',
    help: 'See `detail` for the limit; ask in several queries.',
  },
  order_invalid: {
    status: 400,
    title: 'The order cannot be read',
    help: 'Write `order=field.desc,other.asc.nullsfirst`.',
  },
  select_invalid: { status: 400, title: 'The selection cannot be read', help: 'Write `select=a,b.c`.' },
  schema_invalid: {
    status: 422,
    title: 'The schema is not valid',
    help: 'See `errors`: each names a place in it.',
  },
  schema_violation: {
    status: 422,
    title: "The document does not fit the collection's schema",
    help: 'See `errors`: each has pointer and keyword.',
  },
  schema_incompatible: {
    status: 409,
    title: 'Documents of the collection do not fit the new schema',
    help: 'See `offending`: mend or delete those documents, or loosen the schema. Nothing was changed.',
  },
  not_supported: {
    status: 400,
    title: 'The store of the collection has no such thing',
    help: 'See `detail` for the reason and what has it.',
  },
  validation_too_costly: {
    status: 422,
    title: 'The document takes too long to validate',
    help: 'Shorten it, or simplify patterns and alternatives of the schema.',
  },
  number_unsafe: {
    status: 400,
    title: 'A number would not read back the same',
    help: 'Integers beyond 2^53 - 1 are kept as strings.',
  },
  string_nul: { status: 400, title: 'A string holds a NUL character', help: 'Leave U+0000 out.' },
  unique_violation: {
    status: 409,
    title: 'Another document has the same value in a unique field',
    help: 'See `errors` for the fields; update the other document, or send another value.',
  },
  upsert_not_unique: {
    status: 400,
    title: 'An upsert names fields that are not unique',
    help: 'Declare them: `"unique": [["field"]]` in the schema of the collection.',
  },
  atomic_not_supported: {
    status: 400,
    title: 'The store cannot make several changes at once',
    help: 'Send `"atomic": false`, or use relational collections.',
  },
  query_timeout: {
    status: 503,
    title: 'The query took too long',
    help: 'Narrow it, or index the fields it uses.',
  },
} as const satisfies Record<string, Row>
