/** OPERATIONS: the table of contents of the product. A slice is added here and nowhere else. */

import type { AnyOperation } from '../core/operation.ts'
import { createApiKey, getApiKey, listApiKeys, revokeApiKey } from './api-keys.ts'
import { createDocument, deleteDocument, getDocument, listDocuments, updateDocument } from './collections.ts'
import { publishEvent, subscribeEvents } from './events.ts'
import { createFlow, deleteFlow, getFlow, listFlows, updateFlow, validateFlow } from './flows/definitions.ts'
import { getExecution, listExecutions, listFlowExecutions, startExecution } from './flows/executions.ts'
import { getFlowVersion, listFlowVersions, publishFlow } from './flows/versions.ts'
import {
  configureFunction,
  createFunction,
  deleteFunction,
  getFunction,
  listFunctions,
} from './functions/functions.ts'
import { invokeFunction } from './functions/invoke.ts'
import { getOperation, listOperations } from './operations.ts'
import { createTenant, getTenant, listTenants } from './tenants.ts'
import { createWorkspace, getWorkspace, listWorkspaces } from './workspaces.ts'

export const OPERATIONS: readonly AnyOperation[] = [
  createTenant,
  getTenant,
  listTenants,
  createWorkspace,
  getWorkspace,
  listWorkspaces,
  createApiKey,
  getApiKey,
  listApiKeys,
  revokeApiKey,
  getOperation,
  listOperations,
  createDocument,
  getDocument,
  listDocuments,
  updateDocument,
  deleteDocument,
  publishEvent,
  subscribeEvents,
  createFunction,
  getFunction,
  listFunctions,
  configureFunction,
  deleteFunction,
  invokeFunction,
  listFlows,
  createFlow,
  getFlow,
  updateFlow,
  deleteFlow,
  validateFlow,
  publishFlow,
  listFlowVersions,
  getFlowVersion,
  startExecution,
  getExecution,
  listExecutions,
  listFlowExecutions,
]
