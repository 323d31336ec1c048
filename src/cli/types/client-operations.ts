/** Generates the operations of `@tenon/client` from the OpenAPI document: one table for its code, and the types of it. */

import { fieldOf } from '../../../client/src/operations.ts'
import { comment, memberName, typeOf } from './schema-types.ts'

type Json = Readonly<Record<string, unknown>>

interface Operation {
  readonly method: string
  readonly path: string
  readonly group: string
  readonly name: string
  readonly about: Json
  /** The input field that is the whole body; undefined if the body's members are fields themselves. */
  readonly bodyField: string | undefined
}

interface Parameter {
  readonly name: string
  readonly in: 'path' | 'query' | 'header'
  readonly required?: boolean
  readonly schema: Json
  readonly style?: string
  readonly explode?: boolean
}

type Schemas = Readonly<Record<string, Json>>

const HEAD = '/** Generated from docs/reference/openapi.json by `npm run reference`. */\n\n'

/** The files of `client/src/generated`. */
export function clientFiles(document: Json): {
  readonly table: string
  readonly types: string
  readonly codes: string
} {
  const operations = operationsOf(document)
  const schemas = schemasOf(document)
  return { table: tableOf(operations), types: typesOf(schemas, operations), codes: HEAD + codesOf(schemas) }
}

const schemasOf = ({ components }: Json): Schemas => (components as { readonly schemas: Schemas }).schemas

function operationsOf({ paths }: Json): readonly Operation[] {
  return Object.entries(paths as Readonly<Record<string, Json>>).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, about]) => {
      const { group, method: name, body } = (about as Json)['x-client'] as Readonly<Record<string, string>>
      return {
        ...{ method: method.toUpperCase(), path, about: about as Json },
        ...{ group: String(group), name: String(name), bodyField: body },
      }
    }),
  )
}

const parametersOf = ({ about }: Operation): readonly Parameter[] =>
  ((about['parameters'] ?? []) as readonly Parameter[]).filter(({ name }) => name !== 'idempotency-key')

const isRest = ({ style, explode, in: place }: Parameter): boolean =>
  place === 'query' && style === 'form' && explode === true

const contentOf = (of: unknown): Readonly<Record<string, Json>> =>
  ((of as Json | undefined)?.['content'] ?? {}) as Readonly<Record<string, Json>>

/** The JSON body of an operation, with its media type. */
function jsonBody({ about }: Operation): { readonly type: string; readonly schema: Json } | undefined {
  const [found] = Object.entries(contentOf(about['requestBody'])).filter(([type]) => /\bjson$/.test(type))
  return found && { type: found[0], schema: (found[1]['schema'] ?? {}) as Json }
}

const takesBytes = (operation: Operation): boolean =>
  operation.about['requestBody'] !== undefined && jsonBody(operation) === undefined

/** The media type and schema of the answer; undefined if it has no body. */
function answerOf({ about }: Operation): { readonly type: string; readonly schema: unknown } | undefined {
  const responses = about['responses'] as Readonly<Record<string, Json>>
  const [, success] = Object.entries(responses).find(([status]) => /^2/.test(status)) ?? []
  const [found] = Object.entries(contentOf(success))
  return found && { type: found[0], schema: found[1]['schema'] }
}

const kindOf = (operation: Operation): 'json' | 'stream' | 'bytes' | 'none' => {
  const answer = answerOf(operation)
  if (answer === undefined) return 'none'
  if (answer.type === 'text/event-stream') return 'stream'
  return /\bjson$/.test(answer.type) && !answer.type.includes('ndjson') ? 'json' : 'bytes'
}

/** A line such as `POST /v1/api-keys/{id}/rotate b* k`: what `operations.ts` of the client reads. */
function lineOf(operation: Operation): string {
  const { method, path, about, bodyField } = operation
  const parameters = parametersOf(operation)
  const body = jsonBody(operation)
  const named = (place: string) =>
    parameters.filter((one) => one.in === place && !isRest(one)).map(({ name }) => name)
  const rest = parameters.find(isRest)
  const hasKey = ((about['parameters'] ?? []) as readonly Parameter[]).some(
    ({ name }) => name === 'idempotency-key',
  )
  const kind = kindOf(operation)
  const parts = [
    ...(body === undefined ? [] : [`b${bodyField ?? '*'}`]),
    ...(body === undefined || body.type === 'application/json' ? [] : [`t${body.type}`]),
    ...(takesBytes(operation) ? [`B${bodyField ?? 'body'}`] : []),
    ...(named('query').length === 0 ? [] : [`q${named('query').join()}`]),
    ...(named('header').length === 0 ? [] : [`h${named('header').join()}`]),
    ...(rest === undefined ? [] : [`r${rest.name}`]),
    ...(hasKey ? ['k'] : []),
    ...(kind === 'json' ? [] : [{ stream: 's', bytes: 'y', none: 'n' }[kind]]),
  ]
  return [method, path, ...parts].join(' ')
}

function tableOf(operations: readonly Operation[]): string {
  const groups = [...Map.groupBy(operations, ({ group }) => group)].map(([group, of]) => {
    const lines = of.map((operation) => `    ${memberName(operation.name)}: '${lineOf(operation)}',\n`)
    return `  ${memberName(group)}: {\n${lines.join('')}  },\n`
  })
  return `${HEAD}export const OPERATIONS = {\n${groups.join('')}} as const\n`
}

/** The names of the document's components, and of the types that every file has. */
function typesOf(schemas: Schemas, operations: readonly Operation[]): string {
  const nameOf = (ref: string) => {
    if (ref === '#RequestBody') return 'RequestBody'
    const name = /^#\/components\/schemas\/(\w+)$/.exec(ref)?.[1]
    return name !== undefined && Object.hasOwn(schemas, name) ? name : undefined
  }
  const components = Object.entries(schemas).map(
    ([name, schema]) => `${comment(schema, '')}export type ${name} = ${typeOf(schema, { nameOf })}\n`,
  )
  const groups = [...Map.groupBy(operations, ({ group }) => group)].map(([group, of]) => {
    const methods = of.map((operation) => methodOf(operation, nameOf))
    return `  readonly ${memberName(group)}: {\n${methods.join('')}  }\n`
  })
  const imports =
    "import type { Frame, StreamOptions } from '../streams.ts'\nimport type { CallOptions, RequestBody } from '../transport.ts'\n\n"
  return `${HEAD}${imports}${components.join('\n')}\nexport interface Operations {\n${groups.join('')}}\n`
}

/** The codes of problems, which may become more. */
function codesOf({ Problem }: Schemas): string {
  const { code } = (Problem?.['properties'] ?? {}) as { readonly code?: Json }
  const codes = (code?.['x-extensible-enum'] ?? []) as readonly string[]
  return `export type ProblemCode =${codes.map((one) => `\n  | '${one}'`).join('') || ' string'}\n`
}

function methodOf(operation: Operation, nameOf: (ref: string) => string | undefined): string {
  const { about, name } = operation
  const input = inputOf(operation)
  const isOptional = !Array.isArray(input['required']) || input['required'].length === 0
  const kind = kindOf(operation)
  const options = kind === 'stream' ? 'StreamOptions' : 'CallOptions'
  const of = { nameOf, indent: '    ' }
  const type =
    Object.keys(input['properties'] as Json).length === 0
      ? 'Readonly<Record<string, never>>'
      : typeOf(input, of)
  const answer = {
    json: () => `Promise<${typeOf(answerOf(operation)?.schema, of)}>`,
    stream: () => 'AsyncGenerator<Frame>',
    bytes: () => 'Promise<Response>',
    none: () => 'Promise<void>',
  }[kind]()
  const summary = comment({ description: `${about['summary']}.` }, '    ')
  return `${summary}    ${memberName(name)}(input${isOptional ? '?' : ''}: ${type}, options?: ${options}): ${answer}\n`
}

/** One object for everything that an operation takes. */
function inputOf(operation: Operation): Json {
  const parameters = parametersOf(operation)
  const properties: Record<string, unknown> = {}
  const required: string[] = []
  for (const { name, schema, required: isRequired } of parameters) {
    properties[fieldOf(name)] = schema
    if (isRequired === true) required.push(fieldOf(name))
  }
  const body = jsonBody(operation)
  const { bodyField, about } = operation
  const mustHaveBody = (about['requestBody'] as Json | undefined)?.['required'] === true
  if (takesBytes(operation)) {
    properties[bodyField ?? 'body'] = { $ref: '#RequestBody' }
    if (mustHaveBody) required.push(bodyField ?? 'body')
  } else if (body !== undefined && bodyField !== undefined) {
    properties[bodyField] = body.schema
    if (mustHaveBody) required.push(bodyField)
  } else if (body !== undefined) {
    Object.assign(properties, body.schema['properties'])
    required.push(...((body.schema['required'] ?? []) as readonly string[]))
  }
  return { type: 'object', properties, required }
}
