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
import { invokeFunction } from './functions/functions.ts'
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

/** Short, and harmless where they are made twice: they read, or make what a seeded id names (decision 4). */
const LOCAL: readonly AnyOperation[] = [
  createDocument,
  getDocument,
  listDocuments,
  queryDocuments,
  publishEvent,
]

/** They keep what they are given in documents and objects, which others read: a flow gives them no secret. */
const STORING: readonly AnyOperation[] = [createDocument, updateDocument, putObject]

export const isStoring = (operation: AnyOperation): boolean => STORING.includes(operation)

export function callable(name: string): AnyOperation | undefined {
  return CALLABLE.find((operation) => operation.name === name)
}

export interface CatalogueFunction {
  readonly description: string
  readonly required: readonly string[]
  readonly optional: readonly string[]
  readonly local?: true
  readonly stores?: true
}

/** What the compiler is told of each: its arguments, so that a wrong one is a fault of the definition. */
export const CATALOGUE: Readonly<Record<string, CatalogueFunction>> = Object.fromEntries(
  CALLABLE.map((operation) => {
    const { name, summary, input } = operation
    const required: readonly string[] = input.required ?? []
    const optional = Object.keys(input.properties).filter((field) => !required.includes(field))
    const local = LOCAL.includes(operation) ? { local: true as const } : {}
    const stores = isStoring(operation) ? { stores: true as const } : {}
    return [name, { description: summary, required, optional, ...local, ...stores }]
  }),
)
