/** OPERATIONS: the list of all operations. Those that keys may call are listed in catalogue.ts. */

import type { AnyOperation } from '../core/operation.ts'
import {
  createApiKey,
  getApiKey,
  listApiKeys,
  revokeApiKey,
  rotateApiKey,
  updateApiKey,
} from './api-keys/operations.ts'
import { listAudit, verifyAudit } from './audit/operations.ts'
import {
  createSchema,
  deleteSchema,
  getSchema,
  listSchemas,
  updateSchema,
} from './collections/schemas/schemas-api.ts'
import { DATA_OPERATIONS } from './data-operations.ts'
import { graphFlow, simulateFlow } from './flows/analyze.ts'
import { decodePayloads, encodePayloads } from './flows/codec-api.ts'
import { createFlow, deleteFlow, getFlow, listFlows, updateFlow, validateFlow } from './flows/definitions.ts'
import {
  approveExecution,
  cancelExecution,
  patchExecution,
  pauseExecution,
  resumeExecution,
  retryStep,
  signalExecution,
  skipStep,
} from './flows/executions/commands.ts'
import { watchExecution } from './flows/executions/events.ts'
import {
  getExecution,
  listExecutions,
  listFlowExecutions,
  startExecution,
} from './flows/executions/executions.ts'
import { rerunExecution } from './flows/executions/rerun.ts'
import { deleteFlowSecret, listFlowSecrets, setFlowSecret } from './flows/secrets.ts'
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
} from './flows/triggers/triggers-api.ts'
import {
  deleteFlowAlias,
  getFlowAlias,
  getFlowVersion,
  listFlowAliases,
  listFlowVersions,
  publishFlow,
  setFlowAlias,
} from './flows/versions.ts'
import {
  configureFunction,
  createFunction,
  deleteFunction,
  getFunction,
  listFunctions,
} from './functions/functions.ts'
import {
  confirmAccount,
  createAccount,
  deleteAccount,
  getAccount,
  inviteAccount,
  listAccounts,
  resetAccount,
  updateAccount,
} from './identity/accounts.ts'
import { getMe } from './identity/me.ts'
import {
  createOAuthClient,
  deleteOAuthClient,
  getOAuthClient,
  listOAuthClients,
  rotateIssuerKeys,
  rotateOAuthClient,
} from './identity/oauth-clients.ts'
import { MCP_OPERATIONS } from './mcp-servers/index.ts'
import { getLimits, getQuotas, setQuotas } from './quotas/quotas-api.ts'
import { getOperation, listOperations } from './tenants/jobs.ts'
import { resumeTenant, resumeWorkspace, suspendTenant, suspendWorkspace } from './tenants/suspension.ts'
import {
  createTenant,
  createWorkspace,
  getTenant,
  getWorkspace,
  listTenants,
  listWorkspaces,
} from './tenants/tenants.ts'
import { configureServices, getServices } from './tenants/workspace-settings.ts'

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
