/** The platform functions that flows may `call:`, derived from the operations on data. */

import type { AnyOperation } from '../core/operation.ts'
import {
  createDocument,
  deleteDocument,
  getDocument,
  listDocuments,
  queryDocuments,
  updateDocument,
} from './collections/operations.ts'
import { publishEvent } from './events.ts'
import { invokeFunction } from './functions/invoke.ts'
import { deleteObject, getObject, putObject } from './objects.ts'

/** Operations that a flow reaches, by their names. Each runs through its own schema and rights there too. */
const CALLABLE: readonly AnyOperation[] = [
  createDocument,
  getDocument,
  listDocuments,
  queryDocuments,
  updateDocument,
  deleteDocument,
  putObject,
  getObject,
  deleteObject,
  publishEvent,
  invokeFunction,
]

export function callable(name: string): AnyOperation | undefined {
  return CALLABLE.find((operation) => operation.name === name)
}

export interface CatalogueFunction {
  readonly description: string
  readonly required: readonly string[]
  readonly optional: readonly string[]
}

/** What the compiler is told of each: its arguments, so that a wrong one is a fault of the definition. */
export const CATALOGUE: Readonly<Record<string, CatalogueFunction>> = Object.fromEntries(
  CALLABLE.map(({ name, summary, input }) => {
    const required: readonly string[] = input.required ?? []
    const optional = Object.keys(input.properties).filter((field) => !required.includes(field))
    return [name, { description: summary, required, optional }]
  }),
)
