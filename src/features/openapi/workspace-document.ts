/** The OpenAPI document of a workspace: its own collections, functions and flows with their real types. */

import Type, { type TProperties, type TSchema } from 'typebox'
import { KEYWORDS, referenceName } from '../../../flows-dsl/json-schema/vocabulary.ts'
import { Input } from '../../access/operation-builders.ts'
import { component } from '../../core/components/component.ts'
import { isObject } from '../../core/json.ts'
import type { AnyOperation } from '../../core/operation.ts'
import { CountedPageOf } from '../../core/page.ts'
import { CpuBudget } from '../../infra/cpu-budget.ts'
import { Document, SelectedDocument } from '../collections/document.ts'
import { DATA_OPERATIONS } from '../data-operations.ts'
import { KEY_OPERATIONS } from '../key-operations.ts'
import { OpenApiDocument } from './document.ts'

type JsonSchema = Readonly<Record<string, unknown>>
type Properties = Readonly<Record<string, JsonSchema>>

interface DescribedCollection {
  readonly name: string
  readonly schema: JsonSchema
  readonly mode: string
}

interface DescribedFunction {
  readonly name: string
  /** Null if the module does not export it, as is the other. */
  readonly input_schema: JsonSchema | null
  readonly output_schema: JsonSchema | null
}

interface DescribedFlow {
  readonly name: string
  /** `input.schema` of the latest version. */
  readonly input_schema: JsonSchema
}

/** What the document of a workspace describes. */
export interface Described {
  readonly collections: readonly DescribedCollection[]
  readonly functions: readonly DescribedFunction[]
  readonly flows: readonly DescribedFlow[]
}

/**
 * The document for callers of the data of a workspace. The names of its schemas have dots, which those of the platform have not:
 * `collections.bookings`, `functions.price.input`, `flows.confirm.input`.
 */
export async function workspaceDocument(
  title: string,
  { collections, functions, flows }: Described,
): Promise<Record<string, unknown>> {
  const document = new OpenApiDocument()
  const things = [
    ...collections.map((one) => () => collectionOperations(one)),
    ...functions.map((one) => () => [functionOperation(one)]),
    ...flows.map((one) => () => [flowOperation(one)]),
  ]
  const budget = new CpuBudget(Number.POSITIVE_INFINITY)
  for (const operationsOn of things) {
    budget.run(() => {
      for (const operation of operationsOn()) document.add(operation)
    })
    await budget.yield()
  }
  const description = 'Collections, functions and flows of one workspace, with their types.'
  return document.toJson({ title, description })
}

/** @throws TypeError if no operation on data has the name */
function operationOf(name: string): AnyOperation {
  const found = [...DATA_OPERATIONS, ...KEY_OPERATIONS].find((operation) => operation.name === name)
  if (found === undefined) throw new TypeError(`no operation on data has the name ${name}`)
  return found
}

interface Types {
  readonly input?: TProperties
  readonly output?: TProperties | TSchema
  readonly events?: Readonly<Record<string, TSchema>>
}

/** An operation on one thing: its name is a part of the path, and no parameter. @param field the parameter that names it */
function operationOn(thing: string, name: string, field: string, types: Types): AnyOperation {
  const { input, output, http, ...operation } = operationOf(name)
  const { [field]: _named, ...fields } = input.properties
  const [noun, verb] = name.split('.')
  const outputs = output as TSchema & { readonly properties?: TProperties }
  return {
    ...operation,
    name: `${noun}.${thing}.${verb}`,
    input: Input({ ...fields, ...types.input }),
    output: types.output === undefined ? output : typed(types.output, outputs.properties),
    http: {
      ...http,
      path: http.path.replace(`{${field}}`, thing),
      ...(types.events !== undefined && { events: { ...http.events, ...types.events } }),
    },
  }
}

/** A schema as it is, or members in place of those of an object. */
const typed = (types: TProperties | TSchema, properties: TProperties = {}): TSchema =>
  '~kind' in types || '~unsafe' in types
    ? (types as TSchema)
    : Type.Object({ ...properties, ...(types as TProperties) })

function collectionOperations({ name, schema, mode }: DescribedCollection): AnyOperation[] {
  const title = `collections.${name}`
  const definitions = new Definitions(title, schema)
  const document = named(title, documentSchema(schema, mode), definitions)
  const fields = named(`${title}.fields`, newFields(schema), definitions)
  const changes = named(`${title}.changes`, changedFields(schema), definitions)
  const shown = { document: Type.Unsafe<unknown>(document) }
  const page = CountedPageOf(document)
  const live = Type.Object({ id: Type.String(), version: Type.Integer(), document })
  const on = (verb: string, types: Types) => operationOn(name, `collection.${verb}`, 'name', types)
  return [
    on('create', { input: { document: fields }, output: shown }),
    on('list', { output: page }),
    on('get', { output: shown }),
    on('update', { input: { document: changes }, output: shown }),
    on('patch', { output: shown }),
    on('delete', {}),
    on('query', { output: page }),
    on('subscribe', { events: { enter: live, update: live } }),
  ]
}

const ANY_VALUE: JsonSchema = {}

function functionOperation({ name, input_schema: input, output_schema: output }: DescribedFunction) {
  return operationOn(name, 'function.invoke', 'id', {
    ...(input !== null && { input: { input: named(`functions.${name}.input`, input) } }),
    output: { result: named(`functions.${name}.output`, output ?? ANY_VALUE) },
  })
}

const flowOperation = ({ name, input_schema: input }: DescribedFlow) =>
  operationOn(name, 'flow.start', 'flow', { input: { input: named(`flows.${name}.input`, input) } })

/** The members that the platform adds to a document. */
const SYSTEM_PROPERTIES = Object.assign(
  {},
  ...[Document, SelectedDocument].map(({ allOf: [own] }) => own.properties),
) as Properties

/** A document as it is read. Documents of a collection that does not enforce its schema may lack any field. */
function documentSchema(schema: JsonSchema, mode: string): JsonSchema {
  const isEnforced = mode === 'enforce'
  const required = isEnforced ? namesOf(schema['required']) : []
  const lax = `Documents may differ from it (mode \`${mode}\`).`
  return {
    ...schema,
    type: 'object',
    ...(!isEnforced && { description: [schema['description'], lax].filter(Boolean).join(' ') }),
    properties: { ...Object(schema['properties']), ...SYSTEM_PROPERTIES },
    required: [...new Set(['id', '_created_at', '_updated_at', '_version', ...required])],
  }
}

/** The fields of a new document: those with a default may be absent. */
function newFields(schema: JsonSchema): JsonSchema {
  const properties = Object(schema['properties']) as Properties
  const hasDefault = (name: string) => Object.hasOwn(Object(properties[name]), 'default')
  return {
    ...schema,
    type: 'object',
    required: namesOf(schema['required']).filter((name) => !hasDefault(name)),
  }
}

/** Keywords of a schema that hold for some of its fields alone. */
const OF_PARTS = ['type', 'description', 'properties', 'patternProperties', 'additionalProperties']

/** Some fields of a document, for a change that leaves the others as they are. */
const changedFields = (schema: JsonSchema): JsonSchema => ({
  ...Object.fromEntries(Object.entries(schema).filter(([keyword]) => OF_PARTS.includes(keyword))),
  type: 'object',
})

const namesOf = (required: unknown): string[] => (Array.isArray(required) ? required : [])

/** A schema of the workspace under a name in the document. @param definitions to which its references lead */
const named = (name: string, schema: JsonSchema, definitions = new Definitions(name, schema)): TSchema =>
  component(name, Type.Unsafe(definitions.resolve(schema) as object as TSchema))

/** The `$defs` of a schema as components of their own: a reference within a schema would start at the root of the document. */
class Definitions {
  readonly #prefix: string
  readonly #sources: Readonly<Record<string, unknown>>
  readonly #made = new Map<string, object>()

  constructor(prefix: string, schema: JsonSchema) {
    this.#prefix = prefix
    this.#sources = Object(schema['$defs'])
  }

  /** The schema without `$defs`, with definitions in place of references. One that leads nowhere allows every value. */
  resolve(schema: unknown): unknown {
    if (!isObject(schema)) return schema
    const { $ref, $defs: _defs, $schema: _dialect, ...keywords } = schema
    const resolved = Object.fromEntries(
      Object.entries(keywords).map(([keyword, value]) => [keyword, this.#value(keyword, value)]),
    )
    const name = typeof $ref === 'string' ? referenceName($ref) : undefined
    if (name === undefined || !Object.hasOwn(this.#sources, name)) return resolved
    const target = this.#definition(name)
    return Object.keys(resolved).length === 0 ? target : { allOf: [target, resolved] }
  }

  #value(keyword: string, value: unknown): unknown {
    const shape = Object.hasOwn(KEYWORDS, keyword) ? KEYWORDS[keyword] : undefined
    if (shape === 'schema') return this.resolve(value)
    if (shape === 'schemas' && Array.isArray(value)) return value.map((one) => this.resolve(one))
    if ((shape !== 'schemaMap' && shape !== 'patternMap') || !isObject(value)) return value
    return Object.fromEntries(Object.entries(value).map(([at, one]) => [at, this.resolve(one)]))
  }

  /** The same object for each reference, also for those of the definition to itself. */
  #definition(name: string): object {
    const known = this.#made.get(name)
    if (known !== undefined) return known
    const made = component(`${this.#prefix}.defs.${plainName(name)}`, {} as TSchema)
    this.#made.set(name, made)
    const resolved = this.resolve(this.#sources[name])
    return Object.assign(made, isObject(resolved) ? resolved : resolved === false && { not: {} })
  }
}

/** Names of components have letters, digits, `_`, `-` and dots alone. */
const plainName = (name: string): string =>
  name.replaceAll(/[^\w-]/gu, (character) => `.${character.codePointAt(0)?.toString(16)}`)
