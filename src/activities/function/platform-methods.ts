/** The methods of `context.tenon`: each is an operation of the API, with its arguments in an order. */

import type { ByteSource } from '../../core/bytes.ts'
import { isObject } from '../../core/json.ts'
import type { AnyOperation } from '../../core/operation.ts'
import { Problem } from '../../core/problem.ts'
import { sentences } from '../../core/text/sentences.ts'
import type { Json } from '../../core/work.ts'
import { aggregateDocuments } from '../../features/collections/aggregates/aggregates-api.ts'
import { batchAnywhere } from '../../features/collections/batch.ts'
import { deleteMany, updateMany } from '../../features/collections/bulk/bulk-api.ts'
import * as documents from '../../features/collections/documents-api.ts'
import { publishEvent } from '../../features/events/events-api.ts'
import { FLOW_KEY_OPERATIONS } from '../../features/flows/executions/key-operations.ts'
import { invokeFunction } from '../../features/functions/invoke.ts'
import * as objects from '../../features/objects/objects.ts'

type Arguments = Record<string, unknown>

export interface PlatformMethod {
  readonly operation: AnyOperation
  /** For errors: `collections.get(name, id, { select }?)`. */
  readonly signature: string
  /** @throws Problem `validation_failed` that names the signature */
  readonly argumentsOf: (given: readonly (Json | ByteSource)[]) => Arguments
  /** True if it waits for runs of functions, which need slots of the same tenant. */
  readonly waitsForRuns: boolean
}

const flowOperation = (wanted: string): AnyOperation => {
  const found = FLOW_KEY_OPERATIONS.find(({ name }) => name === wanted)
  if (found === undefined) throw new TypeError(`${wanted} is an operation of flows`)
  return found
}

/** Operations with their positional arguments; `?` marks optional ones. Other fields are members of a last argument. */
const METHODS: readonly (readonly [
  name: string,
  operation: AnyOperation,
  positions: string,
  more?: Pick<PlatformMethod, 'waitsForRuns'>,
])[] = [
  ['collections.create', documents.createDocument, 'name, document'],
  ['collections.get', documents.getDocument, 'name, id'],
  ['collections.query', documents.queryDocuments, 'name'],
  ['collections.aggregate', aggregateDocuments, 'name'],
  ['collections.list', documents.listDocuments, 'name'],
  ['collections.update', documents.updateDocument, 'name, id, document'],
  ['collections.patch', documents.patchDocument, 'name, id'],
  ['collections.delete', documents.deleteDocument, 'name, id'],
  ['collections.updateMany', updateMany, 'name, filter'],
  ['collections.deleteMany', deleteMany, 'name, filter'],
  ['batch', batchAnywhere, 'ops'],
  ['objects.get', objects.getObject, 'bucket, key'],
  ['objects.put', objects.putObject, 'bucket, key, content'],
  ['objects.delete', objects.deleteObject, 'bucket, key'],
  ['objects.list', objects.listObjects, 'bucket'],
  ['events.publish', publishEvent, 'topic, data?'],
  ['functions.invoke', invokeFunction, 'id, input?', { waitsForRuns: true }],
  ['flows.start', flowOperation('flow.start'), 'flow, input?', { waitsForRuns: true }],
  ['flows.get', flowOperation('flow.get_execution'), 'id'],
]

const TABLE: ReadonlyMap<string, PlatformMethod> = new Map(
  METHODS.map(([name, operation, positions, more = {}]) => {
    const places = positions.split(', ').map((text) => text.replace('?', ''))
    const required = positions.split(', ').filter((text) => !text.endsWith('?')).length
    const options = Object.keys(operation.input.properties).filter((field) => !places.includes(field))
    const last = options.length === 0 ? '' : `, { ${options.join(', ')} }?`
    const signature = `${name}(${positions}${last})`
    const argumentsOf = (given: readonly (Json | ByteSource)[]) =>
      placed(given, { places, required, options, signature })
    return [name, { operation, signature, argumentsOf, waitsForRuns: false, ...more }]
  }),
)

/** @throws Problem `not_found` that names the methods */
export function findMethod(name: string): PlatformMethod {
  const method = TABLE.get(name)
  if (method !== undefined) return method
  const known = [...TABLE.keys()].join(', ')
  throw new Problem('not_found', {
    detail: `There is no method ${name.slice(0, 100)}. The methods of tenon are ${known}.`,
  })
}

export const wrongArguments = (signature: string, detail: string): Problem =>
  new Problem('validation_failed', { detail: sentences(detail, `The method is ${signature}.`) })

interface Signature {
  readonly places: readonly string[]
  readonly required: number
  readonly options: readonly string[]
  readonly signature: string
}

/** The input of the operation. */
function placed(
  given: readonly (Json | ByteSource)[],
  { places, required, options, signature }: Signature,
): Arguments {
  const max = places.length + Math.sign(options.length)
  if (given.length < required || given.length > max)
    throw wrongArguments(signature, `It got ${given.length} arguments.`)
  const input: Arguments = {}
  for (const [at, place] of places.entries()) {
    const value = given[at]
    // JSON has null in the place of an argument that was left out before others.
    const isLeftOut =
      value === undefined || (value === null && at >= required && given.length > places.length)
    if (!isLeftOut) input[place] = value
  }
  const more = given[places.length] ?? {}
  if (!isObject(more)) throw wrongArguments(signature, 'Its last argument is an object of options.')
  const unknown = Object.keys(more).find((name) => !options.includes(name))
  if (unknown !== undefined)
    throw wrongArguments(signature, `There is no option \`${unknown.slice(0, 100)}\`.`)
  return { ...input, ...more }
}
