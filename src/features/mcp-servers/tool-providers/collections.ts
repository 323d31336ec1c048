/** Tools over collections: seven for each one that is declared or holds a document. */

import { privilege } from '../../../access/privileges.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { CORE_LIMITS } from '../../../core/limits.ts'
import type { AnyOperation } from '../../../core/operation.ts'
import { type Annotations, CHANGES, INSERTS, READS, readsOnly } from '../../../core/tool-annotations.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import { aggregateDocuments } from '../../collections/aggregates/aggregates-api.ts'
import {
  createDocument,
  deleteDocument,
  getDocument,
  queryDocuments,
  updateDocument,
} from '../../collections/documents-api.ts'
import { MCP_LIMITS } from '../limits.ts'
import { type Candidate, type JsonSchema, type ToolProvider, toolName } from '../tool.ts'
import { documentInput } from './document-arguments.ts'
import {
  aggregateArguments,
  createArguments,
  DELETED,
  type DeclaredFields,
  declaredFields,
  deleteArguments,
  documentResult,
  getArguments,
  groupsResult,
  listArguments,
  pageResult,
  queryArguments,
  renamedOptions,
  updateArguments,
} from './document-schemas.ts'

interface Verb {
  readonly operation: AnyOperation
  readonly title: (collection: string) => string
  /** Says what the tool does and when to use it, without its title, which some clients do not show to models. */
  readonly about: (collection: string) => string
  readonly input: (fields: DeclaredFields | undefined) => JsonSchema
  readonly output: (fields: DeclaredFields | undefined) => JsonSchema
  readonly annotations: Annotations
}

const VERBS: Readonly<Record<string, Verb>> = {
  list: {
    operation: queryDocuments,
    title: (name) => `List ${name}`,
    about: (name) =>
      `Pages through the documents of ${name} whose fields equal the given ones. For other conditions use ${name}_query.`,
    input: listArguments,
    output: pageResult,
    annotations: READS,
  },
  query: {
    operation: queryDocuments,
    title: (name) => `Search ${name}`,
    about: (name) =>
      `Pages through the documents of ${name} that meet conditions, such as less than, contains, one of.`,
    input: queryArguments,
    output: pageResult,
    annotations: READS,
  },
  aggregate: {
    operation: aggregateDocuments,
    title: (name) => `Aggregate ${name}`,
    about: (name) =>
      `Counts the documents of ${name} that meet conditions, and adds up their fields, by groups. For the documents themselves use ${name}_query.`,
    input: aggregateArguments,
    output: groupsResult,
    annotations: READS,
  },
  get: {
    operation: getDocument,
    title: (name) => `Read a document of ${name}`,
    about: (name) => `Returns one document of ${name} by its id.`,
    input: getArguments,
    output: (fields) => documentResult(fields, true),
    annotations: READS,
  },
  create: {
    operation: createDocument,
    title: (name) => `Create a document in ${name}`,
    about: (name) => `Adds a document to ${name}, and returns it with its id.`,
    input: createArguments,
    output: (fields) => documentResult(fields, false),
    annotations: INSERTS,
  },
  update: {
    operation: updateDocument,
    title: (name) => `Change a document of ${name}`,
    about: (name) =>
      `Sets the given fields of one document of ${name}; other fields do not change. Returns the whole document.`,
    input: updateArguments,
    output: (fields) => documentResult(fields, false),
    annotations: CHANGES,
  },
  delete: {
    operation: deleteDocument,
    title: (name) => `Delete a document of ${name}`,
    about: (name) => `Deletes one document of ${name} by its id. It cannot be restored.`,
    input: deleteArguments,
    output: () => DELETED,
    annotations: CHANGES,
  },
}

export const collections: ToolProvider = {
  name: 'collections',
  operations: [...new Set(Object.values(VERBS).map(({ operation }) => operation))],
  candidates: async (scope) => {
    const [names, declarations] = await Promise.all([collectionNames(scope), declaredCollections(scope)])
    return names.flatMap((name) => {
      const declared = declarations.get(name)
      return Object.keys(VERBS).map((verb) => candidate(name, verb, declared))
    })
  },
  input: (tool, { args }) => documentInput(tool, args),
  toSmallerInput: smallerPage,
  isUntrusted: true,
}

/** The input for a page of which a share of the documents fits. */
function smallerPage(input: Readonly<Record<string, unknown>>, share: number) {
  if (!Object.hasOwn(input, 'filter')) return undefined
  const limit = Number(input['limit'] ?? CORE_LIMITS.pageItemsDefault)
  return limit <= 1 ? undefined : { ...input, limit: Math.max(1, Math.floor(limit * share)) }
}

interface Declared {
  readonly fields: DeclaredFields
  readonly description: string | undefined
}

async function declaredCollections(scope: WorkspaceScope): Promise<ReadonlyMap<string, Declared>> {
  const rows = await scope.rows<{ collection: string; schema: JsonSchema; mode: string }>(
    sql`select collection, schema, mode from schemas order by collection limit ${MCP_LIMITS.candidateThingsMax}`,
  )
  const declared = rows.map(({ collection, schema, mode }): [string, Declared] => {
    const { description } = schema
    return [
      collection,
      {
        fields: declaredFields(schema, mode),
        description: typeof description === 'string' ? description : undefined,
      },
    ]
  })
  return new Map(declared)
}

const asService = privilege('mcp.collections')

/** Names of all collections. Undeclared ones are found by one index lookup per name, whatever their size. */
async function collectionNames(scope: WorkspaceScope): Promise<string[]> {
  const rows = await asService(scope).rows<{ collection: string }>(sql`
    with recursive name as (
      (select collection from documents order by collection limit 1)
      union all
      select (select d.collection from documents d where d.collection > name.collection order by d.collection limit 1)
      from name where name.collection is not null
    )
    select collection from name where collection is not null
    union select collection from schemas
    order by collection limit ${MCP_LIMITS.candidateThingsMax}`)
  return rows.map(({ collection }) => collection)
}

function candidate(collection: string, verb: string, declared: Declared | undefined): Candidate {
  const how = VERBS[verb]
  if (how === undefined) throw new TypeError(`no tool of a collection has the verb ${verb}`)
  const { operation, annotations } = how
  const name = toolName(`${collection}_${verb}`)
  const title = how.title(collection)
  return {
    candidate: `collections:${collection}:${verb}`,
    name,
    title,
    description: [how.about(collection), declared?.description ?? '']
      .join(' ')
      .trimEnd()
      .slice(0, MCP_LIMITS.descriptionCharsMax),
    input_schema: how.input(declared?.fields),
    output_schema: how.output(declared?.fields),
    annotations,
    scope: name,
    risk: readsOnly(annotations) ? 'read' : 'write',
    binding: {
      source: 'collections',
      operation: operation.name,
      fixed: { name: collection },
      ...(declared && {
        arguments: 'fields',
        comparable: declared.fields.comparable,
        // The arguments of these are no fields.
        renamed: verb === 'query' || verb === 'aggregate' ? [] : renamedOptions(declared.fields),
      }),
    },
  }
}
