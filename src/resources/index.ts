/** OPERATIONS: the table of contents of the product. A slice is added here and nowhere else. */

import type { AnyOperation } from '../core/operation.ts'
import {
  createAccount,
  deleteAccount,
  getAccount,
  inviteAccount,
  listAccounts,
  updateAccount,
} from './accounts.ts'
import { queryAnalytics } from './analytics.ts'
import { createApiKey, getApiKey, listApiKeys, revokeApiKey } from './api-keys.ts'
import { batchAnywhere, batchDocuments } from './collections/batch.ts'
import { listCollections } from './collections/listing.ts'
import { exportDocuments, importDocuments } from './collections/ndjson/operations.ts'
import {
  createDocument,
  deleteDocument,
  getDocument,
  listDocuments,
  patchDocument,
  queryDocuments,
  updateDocument,
} from './collections/operations.ts'
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
import { rotateIssuerKeys } from './issuer.ts'
import { MCP_OPERATIONS } from './mcp/index.ts'
import {
  createOAuthClient,
  deleteOAuthClient,
  getOAuthClient,
  listOAuthClients,
  rotateOAuthClient,
} from './oauth-clients.ts'
import { deleteObject, getObject, headObject, listObjects, putObject } from './objects.ts'
import { getOperation, listOperations } from './operations.ts'
import { getQuotas, setQuotas } from './quotas.ts'
import { createSchema, deleteSchema, getSchema, listSchemas } from './schemas/operations.ts'
import { updateSchema } from './schemas/update.ts'
import { configureServices, getServices } from './services.ts'
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
  createAccount,
  getAccount,
  listAccounts,
  updateAccount,
  inviteAccount,
  deleteAccount,
  createOAuthClient,
  getOAuthClient,
  listOAuthClients,
  rotateOAuthClient,
  deleteOAuthClient,
  rotateIssuerKeys,
  createSchema,
  getSchema,
  listSchemas,
  updateSchema,
  deleteSchema,
  getOperation,
  listOperations,
  setQuotas,
  getQuotas,
  configureServices,
  getServices,
  queryAnalytics,
  listCollections,
  createDocument,
  getDocument,
  listDocuments,
  queryDocuments,
  updateDocument,
  patchDocument,
  deleteDocument,
  importDocuments,
  exportDocuments,
  batchDocuments,
  batchAnywhere,
  putObject,
  headObject,
  getObject,
  deleteObject,
  listObjects,
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
  ...MCP_OPERATIONS,
]
