/** The operations of admins on functions; `function.invoke` is among those on data. */

import type { AnyOperation } from '../../core/operation.ts'
import { deleteFunctionAlias, getFunctionAlias, listFunctionAliases, setFunctionAlias } from './aliases.ts'
import { createFunction } from './deploy.ts'
import { configureFunction, deleteFunction, getFunction, listFunctions } from './functions.ts'
import { FUNCTION_RUN_OPERATIONS } from './runs/runs-of-function.ts'
import { listFunctionTriggers } from './triggers/triggers-api.ts'
import { activateFunctionVersion, getFunctionVersion, listFunctionVersions } from './versions.ts'

export const FUNCTION_OPERATIONS: readonly AnyOperation[] = [
  createFunction,
  getFunction,
  listFunctions,
  configureFunction,
  listFunctionVersions,
  getFunctionVersion,
  activateFunctionVersion,
  listFunctionAliases,
  getFunctionAlias,
  setFunctionAlias,
  deleteFunctionAlias,
  ...FUNCTION_RUN_OPERATIONS,
  deleteFunction,
  listFunctionTriggers,
]
