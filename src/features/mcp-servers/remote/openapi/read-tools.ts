/**
 * Reads the operations of an OpenAPI document as tools: pure and bounded, for a worker thread. The time grows with the size of the
 * document, and with what its references expand to.
 */

import { CORE_LIMITS } from '../../../../core/limits.ts'
import { annotationsOfMethod } from '../../../../core/tool-annotations.ts'
import {
  type Fields,
  fieldsOf,
  InvalidDocument,
  isJsonText,
  OPENAPI_3,
  parseJsonText,
  requireVersion,
  yamlToJson,
} from '../../../../infra/openapi/document.ts'
import {
  type DocumentOperation,
  operationsIn,
  responseSchemaOf,
  serverOf,
} from '../../../../infra/openapi/operations.ts'
import { MCP_LIMITS } from '../../limits.ts'
import { digest, type JsonSchema, toolName } from '../../tool-name.ts'
import { type Definition, type PinnedDefinitions, pinned, type Skipped } from '../definitions.ts'
import { type Arguments, argumentsOf } from './arguments.ts'
import { type SchemaBounds, SchemaReader, textOf } from './schemas.ts'

/** A document, and what the source says about it. */
export interface OpenApiSource {
  readonly text: string
  /** The URL of the document, to which its servers may be relative. */
  readonly url: string
  /** In place of the servers of the document. */
  readonly base_url: string | null
  /** Names of the headers that the source sets. */
  readonly headers: readonly string[]
}

/** How a request of an operation is made; a published version freezes it. */
export interface OpenApiCall extends Pick<Arguments, 'parameters' | 'body'> {
  readonly server: string
  readonly method: string
  readonly path: string
}

/** From full schemas to shallow ones: the first with which all definitions fit into their limit. */
const BOUNDS: readonly SchemaBounds[] = [
  { depth: 8, nodes: 300 },
  { depth: 4, nodes: 80 },
  { depth: 2, nodes: 25 },
  { depth: 1, nodes: 10 },
]
/** A larger schema of results is left out: models read it, and servers often differ from it. */
const RESULT_BOUNDS: SchemaBounds = { depth: 5, nodes: 60 }

/** @returns the pinned definitions, or what is wrong with the document */
export function readOpenApi(source: OpenApiSource): { pinned: PinnedDefinitions } | { fault: string } {
  try {
    return { pinned: read(source) }
  } catch (error) {
    if (error instanceof InvalidDocument || error instanceof RangeError) return { fault: error.message }
    throw error
  }
}

function read(source: OpenApiSource): PinnedDefinitions {
  const document = requireVersion(parseText(source.text), OPENAPI_3)
  const server = requireServer(document, source)
  const operations = requireOperations(document)
  for (const bounds of BOUNDS) {
    const read = definitionsOf({ document, source, server, bounds, patterns: new Map() }, operations)
    if (read === undefined) continue
    if (read.definitions.length > 0) return pinned(read.definitions, read.skipped)
    const [first] = read.skipped
    throw new InvalidDocument(
      first === undefined
        ? 'The document has no operation.'
        : `No operation of the document can be a tool. ${first.part}: ${first.reason}`,
    )
  }
  throw new InvalidDocument(
    `Its definitions of tools have more than ${MCP_LIMITS.sources.definitionsBytesMax} bytes together.`,
  )
}

interface Reading {
  readonly document: Fields
  readonly source: OpenApiSource
  readonly server: URL
  readonly bounds: SchemaBounds
  readonly patterns: Map<string, boolean>
}

const parseText = (text: string): unknown =>
  isJsonText(text)
    ? parseJsonText(text)
    : JSON.parse(yamlToJson({ text, charsMax: 2 * MCP_LIMITS.sources.documentBytesMax }))

/** Without OPTIONS, which is about the server. @throws InvalidDocument if there are too many */
function requireOperations(document: Fields): DocumentOperation[] {
  const found: DocumentOperation[] = []
  for (const operation of operationsIn(document)) {
    if (operation.method === 'options') continue
    found.push(operation)
    if (found.length > MCP_LIMITS.sources.definitionsMax)
      throw new InvalidDocument(`The document has more than ${MCP_LIMITS.sources.definitionsMax} operations.`)
  }
  return found
}

/** @returns undefined if the definitions are too large together */
function definitionsOf(reading: Reading, operations: readonly DocumentOperation[]) {
  const names = new Names()
  const definitions: Definition[] = []
  const skipped: Skipped[] = []
  let left: number = MCP_LIMITS.sources.definitionsBytesMax
  for (const one of operations) {
    const definition = definitionOf(reading, one, names)
    if ('reason' in definition) skipped.push(definition)
    else {
      definitions.push(definition)
      // With its hash.
      left -= Buffer.byteLength(JSON.stringify(definition)) + 80
      if (left < 0) return undefined
    }
  }
  return { definitions, skipped }
}

/** Keys and names of tools, each once; names also without regard to case. */
class Names {
  readonly #used = new Set<string>()

  /** @param texts the first that is free */
  key(texts: readonly string[]): string {
    return this.#use('key', texts, (text) => text)
  }

  name(text: string): string {
    const name = toolName(text)
    return this.#use('name', [name, toolName(`${name}_${shortHash(text)}`)], (one) => one.toLowerCase())
  }

  #use(kind: string, texts: readonly string[], fold: (text: string) => string): string {
    const free = texts.find((text) => !this.#used.has(`${kind} ${fold(text)}`))
    if (free === undefined) throw new InvalidDocument(`It has the same identity as another operation.`)
    this.#used.add(`${kind} ${fold(free)}`)
    return free
  }
}

const shortHash = (text: string) => digest(text).slice(0, 8)

const KEY_CHARS_MAX = 200

function definitionOf(reading: Reading, operation: DocumentOperation, names: Names): Definition | Skipped {
  const { path, method, fields } = operation
  const place = `${method.toUpperCase()} ${textOf(path)}`
  try {
    if (!path.startsWith('/')) throw new InvalidDocument('Its path does not begin with a slash.')
    refuseOwnServers(reading, operation)
    const { document, source, server, bounds, patterns } = reading
    const reader = new SchemaReader(document, bounds, 'readOnly', patterns)
    const { schema, ...request } = argumentsOf(document, operation, reader, source.headers)
    const output_schema = resultOf(reading, operation)
    const id = textOf(operation.id)?.trim().slice(0, KEY_CHARS_MAX)
    const hashed = `${place.slice(0, KEY_CHARS_MAX - 9)} ${shortHash(place)}`
    const key = names.key([...(id ? [id] : []), place.length > KEY_CHARS_MAX ? hashed : place])
    const name = names.name(id || `${method}${path.replaceAll(/[{}]/g, '').replaceAll('/', '_')}`)
    return {
      key,
      name,
      ...textsOf(fields, name, place),
      input_schema: schema,
      ...(output_schema && { output_schema }),
      annotations: annotationsOfMethod(method),
      call: {
        server: server.href,
        method: method.toUpperCase(),
        path: textOf(path),
        ...request,
      } as Definition['call'],
    }
  } catch (error) {
    if (!(error instanceof InvalidDocument)) throw error
    return { part: place.slice(0, KEY_CHARS_MAX), reason: error.message }
  }
}

function textsOf({ summary, description }: Fields, name: string, place: string) {
  const title = oneLine(textOf(summary) ?? '')
    .slice(0, CORE_LIMITS.nameCharsMax)
    .toWellFormed()
  const sends = `ends ${place.slice(0, 300)}.`
  const text = textOf(description)?.trim() || (title === '' ? `S${sends}` : `${title}: s${sends}`)
  const most = MCP_LIMITS.descriptionCharsMax
  return {
    title: title || name,
    description: text.length > most ? `${text.slice(0, most - 1).toWellFormed()}…` : text,
  }
}

const oneLine = (text: string) => text.replaceAll(/\s+/g, ' ').trim()

/**
 * The schema of the only successful response, if it is an object and small. It has types alone: other keywords become stricter
 * or wider without notice.
 */
function resultOf({ document, patterns }: Reading, operation: DocumentOperation): JsonSchema | undefined {
  try {
    const reader = new SchemaReader(document, RESULT_BOUNDS, 'writeOnly', patterns)
    const schema = reader.read(responseSchemaOf(document, operation))
    if (schema['type'] !== 'object' || schema['anyOf'] !== undefined || reader.hasCuts) return undefined
    return typesOnly(schema)
  } catch (error) {
    if (error instanceof InvalidDocument) return undefined
    throw error
  }
}

function typesOnly({ type, description, properties, items }: JsonSchema): JsonSchema {
  const members = Object.entries(fieldsOf(properties))
  return {
    ...(type !== undefined && { type }),
    ...(description !== undefined && { description }),
    ...(members.length > 0 && {
      properties: Object.fromEntries(members.map(([name, one]) => [name, typesOnly(one as JsonSchema)])),
    }),
    ...(items !== undefined && { items: typesOnly(items as JsonSchema) }),
  }
}

/** @throws InvalidDocument if it is no HTTP URL, or credentials of the source would go to another origin than the document's */
function requireServer(document: Fields, { url, base_url, headers }: OpenApiSource): URL {
  if (base_url !== null) return new URL(base_url)
  const server = firstServer(document, url) ?? new URL('/', url)
  if (!/^https?:$/.test(server.protocol) || server.username !== '' || server.password !== '')
    throw new InvalidDocument('Its first server is no http or https URL without credentials: set `base_url`.')
  if (headers.length === 0 || server.origin === new URL(url).origin) return server
  throw new InvalidDocument(
    `Its server ${server.origin} is another one than that of \`url\`, and would get the headers of the source: confirm it by \`base_url\`.`,
  )
}

function firstServer(fields: Fields, url: string): URL | undefined {
  const text = serverOf(fields)
  if (text === undefined || URL.canParse(text, url))
    return text === undefined ? undefined : new URL(text, url)
  throw new InvalidDocument('Its first server is no URL: set `base_url`.')
}

/** @throws InvalidDocument for an operation with a server of its own, unless the source names the server of all */
function refuseOwnServers({ source, server }: Reading, { item, fields }: DocumentOperation): void {
  if (source.base_url !== null) return
  const own = firstServer(fields, source.url) ?? firstServer(item, source.url)
  if (own === undefined || own.href === server.href) return
  throw new InvalidDocument(
    `It has a server of its own, ${own.origin}: set \`base_url\`, or register it as another source.`,
  )
}
