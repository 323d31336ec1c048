/** The arguments of an operation: its parameters and the members of its body as one flat list, each name once. */

import { type Fields, InvalidDocument } from '../../../../infra/openapi/document.ts'
import {
  bodyOf,
  type DocumentOperation,
  type DocumentParameter,
  parametersOf,
} from '../../../../infra/openapi/operations.ts'
import { MCP_LIMITS } from '../../limits.ts'
import type { JsonSchema } from '../../tool-name.ts'
import { isHeaderName, isReservedHeader } from '../header-names.ts'
import { type Add, addBody, type Body } from './body.ts'
import { described, type SchemaReader, textOf } from './schemas.ts'

/** A parameter of a request (OpenAPI "Parameter Object"). */
export interface Parameter {
  /** The name of the argument of the tool. */
  readonly argument: string
  readonly name: string
  readonly in: 'path' | 'query' | 'header'
  readonly style: string
  readonly explode: boolean
  readonly reserved: boolean
  /** Its value is sent as JSON. */
  readonly json: boolean
}

/** The arguments of a tool, and the parts of a request that they become. */
export interface Arguments {
  readonly schema: JsonSchema
  readonly parameters: readonly Parameter[]
  readonly body?: Body
}

interface Argument {
  readonly name: string
  readonly schema: JsonSchema
  readonly required: boolean
}

/**
 * @param headers names of headers that the source sets
 * @throws InvalidDocument if a request of the operation cannot be made
 */
export function argumentsOf(
  document: Fields,
  operation: DocumentOperation,
  reader: SchemaReader,
  headers: readonly string[],
): Arguments {
  const names = new ArgumentNames()
  const known: Argument[] = []
  const add = (text: string, suffix: string, schema: JsonSchema, required: boolean): string => {
    const name = names.add(text, suffix)
    known.push({ name, schema, required })
    return name
  }
  const parameters = sentParameters(document, operation, headers)
    .filter(({ location, name }) => location !== 'header' || isFree(name, headers))
    .map((one) => addParameter(one, reader, add))
  const documentBody = bodyOf(document, operation)
  const body = documentBody && addBody(document, documentBody, reader, add)
  const schema = {
    type: 'object',
    properties: Object.fromEntries(known.map((one) => [one.name, one.schema])),
    required: known.filter(({ required }) => required).map(({ name }) => name),
    additionalProperties: false,
  }
  return { schema, parameters, ...(body !== undefined && { body }) }
}

const isFree = (name: string, headers: readonly string[]) =>
  isHeaderName(name) && !isReservedHeader(name, headers)

/** Gives each argument a name of its own, and always the same in the same order. */
class ArgumentNames {
  readonly #used = new Set<string>()

  /** @param suffix tells apart parameters of one name: `id`, `id_query` */
  add(text: string, suffix: string): string {
    const clean = text.replaceAll(/[^A-Za-z0-9_.-]/g, '_').replace(/^__proto__$/, 'proto')
    const name = clean.slice(0, MCP_LIMITS.toolNameCharsMax - 12) || suffix
    const candidates = [name, `${name}_${suffix}`]
    let free = candidates.find((one) => !this.#used.has(one))
    for (let n = 2; free === undefined; n += 1) {
      const numbered = `${name}_${suffix}_${n}`
      if (!this.#used.has(numbered)) free = numbered
    }
    this.#used.add(free)
    return free
  }
}

const PARAMETERS_MAX = 100
const PLACES = ['path', 'query', 'header'] as const

/** A parameter that is sent: no cookie is. */
type SentParameter = DocumentParameter & { readonly location: Parameter['in'] }

/**
 * Parameters in the order path, query, header, with those that only the path template names.
 * @param headers names of headers that the source sets
 * @throws InvalidDocument if there are too many, or a cookie is required that the source does not set
 */
function sentParameters(
  document: Fields,
  operation: DocumentOperation,
  headers: readonly string[],
): readonly SentParameter[] {
  const declared = parametersOf(document, operation)
  const cookie = declared.find(({ location, required }) => location === 'cookie' && required)
  if (cookie !== undefined && !headers.includes('cookie'))
    throw new InvalidDocument(
      `It needs the cookie ${cookie.name.slice(0, 100)}: set it in \`headers\` of the source.`,
    )
  const inTemplate = [...operation.path.matchAll(/\{([^{}]+)\}/g)].map(([, name]) => textOf(name) ?? '')
  const inPath = declared.filter(({ location }) => location === 'path').map(({ name }) => name)
  const undeclared = inTemplate.filter(
    (name, index) => !inPath.includes(name) && inTemplate.indexOf(name) === index,
  )
  const needed = [...declared, ...undeclared.map(pathParameter)].filter(
    ({ location, name }) => location !== 'path' || inTemplate.includes(name),
  )
  const sent = PLACES.flatMap((place) => needed.filter((one): one is SentParameter => one.location === place))
  if (sent.length <= PARAMETERS_MAX) return sent
  throw new InvalidDocument(`It has more than ${PARAMETERS_MAX} parameters.`)
}

const pathParameter = (name: string): DocumentParameter => ({
  name,
  location: 'path',
  required: true,
  style: 'simple',
  explode: false,
  reserved: false,
  json: false,
  schema: { type: 'string' },
  description: undefined,
})

function addParameter(parameter: SentParameter, reader: SchemaReader, add: Add): Parameter {
  const { location, required, style, explode, reserved, json, schema, description } = parameter
  const name = textOf(parameter.name) ?? ''
  const argument = add(name, location, described(reader.read(schema), description), required)
  return { argument, name, in: location, style, explode, reserved, json }
}
