/** OPERATIONS: the list of all operations. Those that keys may call are listed in catalogue.ts. */

import type { AnyOperation } from '../core/operation.ts'
import {
  confirmAccount,
  createAccount,
  deleteAccount,
  getAccount,
  inviteAccount,
  listAccounts,
  resetAccount,
  updateAccount,
} from './accounts.ts'
import {
  createApiKey,
  getApiKey,
  listApiKeys,
  revokeApiKey,
  rotateApiKey,
  updateApiKey,
} from './api-keys/operations.ts'
import { listAudit, verifyAudit } from './audit.ts'
import { DATA_OPERATIONS } from './catalogue.ts'
import { decodePayloads, encodePayloads } from './codec.ts'
import {
  approveExecution,
  cancelExecution,
  patchExecution,
  pauseExecution,
  resumeExecution,
  retryStep,
  signalExecution,
  skipStep,
} from './flows/commands.ts'
import { createFlow, deleteFlow, getFlow, listFlows, updateFlow, validateFlow } from './flows/definitions.ts'
import { getExecution, listExecutions, listFlowExecutions, startExecution } from './flows/executions.ts'
import { rerunExecution } from './flows/rerun.ts'
import { deleteFlowSecret, listFlowSecrets, setFlowSecret } from './flows/secrets.ts'
import { graphFlow, simulateFlow } from './flows/simulate.ts'
import {
  getSchedule,
  listSchedules,
  listTriggers,
  pauseSchedule,
  pauseTrigger,
  resumeSchedule,
  resumeTrigger,
  rotateTriggerSecret,
  triggerSchedule,
} from './flows/triggers/operations.ts'
import {
  deleteFlowAlias,
  getFlowAlias,
  getFlowVersion,
  listFlowAliases,
  listFlowVersions,
  publishFlow,
  setFlowAlias,
} from './flows/versions.ts'
import { watchExecution } from './flows/watch.ts'
import {
  configureFunction,
  createFunction,
  deleteFunction,
  getFunction,
  listFunctions,
} from './functions/functions.ts'
import { MCP_OPERATIONS } from './mcp/index.ts'
import { getMe } from './me.ts'
import {
  createOAuthClient,
  deleteOAuthClient,
  getOAuthClient,
  listOAuthClients,
  rotateIssuerKeys,
  rotateOAuthClient,
} from './oauth-clients.ts'
import { getOperation, listOperations } from './operations.ts'
import { getLimits, getQuotas, setQuotas } from './quotas/operations.ts'
import { createSchema, deleteSchema, getSchema, listSchemas, updateSchema } from './schemas/operations.ts'
import { configureServices, getServices } from './services.ts'
import { resumeTenant, resumeWorkspace, suspendTenant, suspendWorkspace } from './suspension.ts'
import {
  createTenant,
  createWorkspace,
  getTenant,
  getWorkspace,
  listTenants,
  listWorkspaces,
} from './tenants.ts'

export const OPERATIONS: readonly AnyOperation[] = [
  getMe,
  getLimits,
  createTenant,
  getTenant,
  listTenants,
  suspendTenant,
  resumeTenant,
  createWorkspace,
  getWorkspace,
  listWorkspaces,
  suspendWorkspace,
  resumeWorkspace,
  createApiKey,
  getApiKey,
  listApiKeys,
  updateApiKey,
  rotateApiKey,
  revokeApiKey,
  createAccount,
  getAccount,
  listAccounts,
  updateAccount,
  inviteAccount,
  resetAccount,
  confirmAccount,
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
  listAudit,
  verifyAudit,
  decodePayloads,
  encodePayloads,
  ...DATA_OPERATIONS,
  createFunction,
  getFunction,
  listFunctions,
  configureFunction,
  deleteFunction,
  listFlows,
  createFlow,
  getFlow,
  updateFlow,
  deleteFlow,
  validateFlow,
  graphFlow,
  simulateFlow,
  publishFlow,
  listFlowVersions,
  getFlowVersion,
  listFlowAliases,
  getFlowAlias,
  setFlowAlias,
  deleteFlowAlias,
  setFlowSecret,
  listFlowSecrets,
  deleteFlowSecret,
  startExecution,
  getExecution,
  listExecutions,
  listFlowExecutions,
  watchExecution,
  signalExecution,
  approveExecution,
  retryStep,
  skipStep,
  pauseExecution,
  resumeExecution,
  patchExecution,
  cancelExecution,
  rerunExecution,
  listSchedules,
  getSchedule,
  pauseSchedule,
  resumeSchedule,
  triggerSchedule,
  listTriggers,
  rotateTriggerSecret,
  pauseTrigger,
  resumeTrigger,
  ...MCP_OPERATIONS,
]
