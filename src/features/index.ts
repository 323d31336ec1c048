/** OPERATIONS: the list of all operations; those on data are in data-operations.ts. */

import type { AnyOperation } from '../core/operation.ts'
import { listMetrics, queryTenant } from './analytics/analytics-api.ts'
import { listUsage } from './analytics/usage-api.ts'
import * as archives from './archives/archives-api.ts'
import { listAudit, verifyAudit } from './audit/audit-api.ts'
import * as collections from './collections/lifecycle/lifecycle-api.ts'
import { explainAccess } from './collections/rules/explain-access.ts'
import { inferSchema } from './collections/schemas/infer-schema.ts'
import * as schemaPlans from './collections/schemas/plan-api.ts'
import * as schemas from './collections/schemas/schemas-api.ts'
import { graphFlow, simulateFlow, validateFlow } from './flows/analyze.ts'
import * as approvals from './flows/approvals/approvals.ts'
import { decodePayloads, encodePayloads } from './flows/codec-api.ts'
import * as definitions from './flows/definitions.ts'
import * as commands from './flows/executions/commands.ts'
import { watchExecution } from './flows/executions/events.ts'
import * as executions from './flows/executions/executions.ts'
import { rerunExecution } from './flows/executions/rerun.ts'
import { subscribeToExecutions } from './flows/executions/status-feed.ts'
import { getStep, listSteps } from './flows/executions/steps.ts'
import { flowMetrics } from './flows/metrics.ts'
import * as secrets from './flows/secrets.ts'
import * as triggers from './flows/triggers/triggers-api.ts'
import * as versions from './flows/versions.ts'
import { FUNCTION_OPERATIONS } from './functions/index.ts'
import * as accounts from './identity/accounts/accounts-api.ts'
import * as oauth from './identity/clients/clients-api.ts'
import { createDataToken } from './identity/data-tokens.ts'
import * as apiKeys from './identity/keys/keys-api.ts'
import { getMe } from './identity/me.ts'
import * as sessions from './identity/sessions/sessions-api.ts'
import * as signInPolicy from './identity/sign-in-policy.ts'
import * as users from './identity/users/users-api.ts'
import { KEY_OPERATIONS } from './key-operations.ts'
import { MCP_OPERATIONS } from './mcp-servers/index.ts'
import { getWorkspaceDocument } from './openapi/workspace-document-api.ts'
import { deleteUser } from './people/delete-user.ts'
import { exportUser } from './people/export-user.ts'
import { getLimits, getQuotas, setQuotas } from './quotas/quotas-api.ts'
import { getStatus } from './status/status-api.ts'
import * as deletion from './tenants/deletion.ts'
import * as hosts from './tenants/hosts/hosts-api.ts'
import { getOperation, listOperations } from './tenants/jobs.ts'
import * as rename from './tenants/rename.ts'
import { getDrift } from './tenants/resources/drift.ts'
import * as suspension from './tenants/suspension.ts'
import * as tenants from './tenants/tenants.ts'
import * as unfinished from './tenants/unfinished.ts'
import { configureServices, getServices } from './tenants/workspace-settings.ts'

export const OPERATIONS: readonly AnyOperation[] = [
  getMe,
  sessions.listOwnSessions,
  sessions.endOwnSession,
  sessions.listOwnConsents,
  sessions.endOwnConsent,
  getLimits,
  listMetrics,
  listUsage,
  queryTenant,
  getStatus,
  tenants.createTenant,
  tenants.getTenant,
  tenants.listTenants,
  rename.updateTenant,
  getDrift,
  suspension.suspendTenant,
  suspension.resumeTenant,
  unfinished.retryTenant,
  deletion.deleteTenant,
  suspension.restoreTenant,
  tenants.createWorkspace,
  tenants.getWorkspace,
  getWorkspaceDocument,
  tenants.listWorkspaces,
  hosts.createHost,
  hosts.listHosts,
  hosts.verifyHost,
  hosts.deleteHost,
  rename.updateWorkspace,
  suspension.suspendWorkspace,
  suspension.resumeWorkspace,
  unfinished.retryWorkspace,
  deletion.deleteWorkspace,
  archives.exportWorkspace,
  archives.exportTenant,
  archives.getArchive,
  archives.importWorkspace,
  archives.importTenant,
  suspension.restoreWorkspace,
  createDataToken,
  apiKeys.createApiKey,
  apiKeys.getApiKey,
  apiKeys.listApiKeys,
  apiKeys.updateApiKey,
  apiKeys.rotateApiKey,
  apiKeys.revokeApiKey,
  accounts.createAccount,
  accounts.getAccount,
  accounts.listAccounts,
  accounts.updateAccount,
  accounts.inviteAccount,
  accounts.resetAccount,
  accounts.confirmAccount,
  accounts.deleteAccount,
  accounts.resetAccountFactors,
  sessions.accountSessions.list,
  sessions.accountSessions.end,
  sessions.userSessions.list,
  sessions.userSessions.end,
  signInPolicy.getSignInPolicy,
  signInPolicy.setSignInPolicy,
  users.createUser,
  users.exportUsers,
  users.getUser,
  users.listUsers,
  users.inviteUser,
  users.updateUser,
  users.signOutUser,
  users.resetUserFactors,
  deleteUser,
  exportUser,
  oauth.createOAuthClient,
  oauth.getOAuthClient,
  oauth.listOAuthClients,
  oauth.rotateOAuthClient,
  oauth.deleteOAuthClient,
  oauth.rotateIssuerKeys,
  explainAccess,
  collections.dropCollection,
  collections.truncateCollection,
  collections.renameCollection,
  inferSchema,
  schemaPlans.exportSchemas,
  schemaPlans.planDeclarations,
  schemaPlans.applySchemas,
  schemas.createSchema,
  schemas.getSchema,
  schemas.listSchemas,
  schemas.updateSchema,
  schemas.deleteSchema,
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
  ...KEY_OPERATIONS,
  ...FUNCTION_OPERATIONS,
  definitions.listFlows,
  definitions.createFlow,
  definitions.getFlow,
  definitions.updateFlow,
  definitions.deleteFlow,
  flowMetrics,
  validateFlow,
  graphFlow,
  simulateFlow,
  versions.publishFlow,
  versions.listFlowVersions,
  versions.getFlowVersion,
  versions.listFlowAliases,
  versions.getFlowAlias,
  versions.setFlowAlias,
  versions.deleteFlowAlias,
  secrets.setFlowSecret,
  secrets.listFlowSecrets,
  secrets.deleteFlowSecret,
  executions.startExecution,
  executions.getExecution,
  listSteps,
  getStep,
  executions.listExecutions,
  executions.listFlowExecutions,
  watchExecution,
  subscribeToExecutions,
  commands.signalExecution,
  commands.approveExecution,
  commands.retryStep,
  commands.skipStep,
  commands.pauseExecution,
  commands.resumeExecution,
  commands.patchExecution,
  commands.cancelExecution,
  rerunExecution,
  approvals.listApprovals,
  approvals.getApproval,
  approvals.decideApproval,
  triggers.listSchedules,
  triggers.getSchedule,
  triggers.pauseSchedule,
  triggers.resumeSchedule,
  triggers.triggerSchedule,
  triggers.listTriggers,
  triggers.rotateTriggerSecret,
  triggers.pauseTrigger,
  triggers.resumeTrigger,
  triggers.testTrigger,
  ...MCP_OPERATIONS,
]
