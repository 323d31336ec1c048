/** Tools over collections: six for each one that is declared or holds a document. */

import { asWorkspaceService } from '../../../access/access.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { LIMITS } from '../../../core/limits.ts'
import type { AnyOperation } from '../../../core/operation.ts'
import type { Annotations } from '../../../core/tool-access.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import {
  createDocument,
  deleteDocument,
  getDocument,
  listDocuments,
  queryDocuments,
  updateDocument,
} from '../../collections/documents-api.ts'
import { argumentsOf, type Candidate, type JsonSchema, type Source, toolName } from '../tool.ts'

const DOCUMENT: JsonSchema = {
  type: 'object',
  properties: { id: { type: 'string' }, _version: { type: 'integer' } },
  required: ['id', '_version'],
}
const PAGE: JsonSchema = {
  type: 'object',
  properties: { data: { type: 'array', items: { type: 'object' } }, page: { type: 'object' } },
  required: ['data', 'page'],
}
const GONE: JsonSchema = {
  type: 'object',
  properties: { id: { type: 'string' }, deleted: { type: 'boolean' } },
  required: ['id', 'deleted'],
}

interface Verb {
  readonly operation: AnyOperation
  readonly title: (collection: string) => string
  readonly output: JsonSchema
  readonly annotations: Annotations
}

const INSERTS: Annotations = {
  readOnlyHint: false,
  destructiveHint: false,
  idempotentHint: false,
  openWorldHint: false,
}
const READS: Annotations = { ...INSERTS, readOnlyHint: true, idempotentHint: true }
const CHANGES: Annotations = { ...INSERTS, destructiveHint: true, idempotentHint: true }

const VERBS: Readonly<Record<string, Verb>> = {
  list: {
    operation: listDocuments,
    title: (name) => `List the documents of ${name}, oldest first`,
    output: PAGE,
    annotations: READS,
  },
  query: {
    operation: queryDocuments,
    title: (name) => `Query the documents of ${name} with a filter in JSON`,
    output: PAGE,
    annotations: READS,
  },
  get: {
    operation: getDocument,
    title: (name) => `Read a document of ${name}`,
    output: DOCUMENT,
    annotations: READS,
  },
  create: {
    operation: createDocument,
    title: (name) => `Create a document in ${name}`,
    output: DOCUMENT,
    annotations: INSERTS,
  },
  update: {
    operation: updateDocument,
    title: (name) => `Set the named fields of a document of ${name}; the others stay`,
    output: DOCUMENT,
    annotations: CHANGES,
  },
  delete: {
    operation: deleteDocument,
    title: (name) => `Delete a document of ${name}`,
    output: GONE,
    annotations: CHANGES,
  },
}

export const collections: Source = {
  name: 'collections',
  operations: Object.values(VERBS).map(({ operation }) => operation),
  candidates: async (scope) => {
    const names = await collectionNames(scope)
    return names.flatMap((name) => Object.entries(VERBS).map(([verb, how]) => candidate(name, verb, how)))
  },
}

/** Names of all collections. Undeclared ones are found by one index lookup per name, whatever their size. */
async function collectionNames(scope: WorkspaceScope): Promise<string[]> {
  const rows = await asWorkspaceService(scope).rows<{ collection: string }>(sql`
    with recursive name as (
      (select collection from documents order by collection limit 1)
      union all
      select (select d.collection from documents d where d.collection > name.collection order by d.collection limit 1)
      from name where name.collection is not null
    )
    select collection from name where collection is not null
    union select collection from schemas
    order by collection limit ${LIMITS.mcpCandidateThingsMax}`)
  return rows.map(({ collection }) => collection)
}

function candidate(collection: string, verb: string, how: Verb): Candidate {
  const fixed = { name: collection }
  const name = toolName(`${collection}_${verb}`)
  const title = how.title(collection)
  return {
    candidate: `collections:${collection}:${verb}`,
    name,
    title,
    description: `${title}.`,
    input_schema: argumentsOf(how.operation, fixed),
    output_schema: how.output,
    annotations: how.annotations,
    scope: name,
    risk: how.annotations.readOnlyHint ? 'read' : 'write',
    binding: { source: 'collections', operation: how.operation.name, fixed },
  }
}
