/** The operations of admins on functions; `function.invoke` is among those on data. */

import type { AnyOperation } from '../../core/operation.ts'
import { createFunction } from './deploy.ts'
import { configureFunction, deleteFunction, getFunction, listFunctions } from './functions.ts'
import { FUNCTION_RUN_OPERATIONS } from './runs/runs-of-function.ts'

export const FUNCTION_OPERATIONS: readonly AnyOperation[] = [
  createFunction,
  getFunction,
  listFunctions,
  configureFunction,
  ...FUNCTION_RUN_OPERATIONS,
  deleteFunction,
]
