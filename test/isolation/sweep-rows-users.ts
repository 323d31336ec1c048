/** Rows of the sweep for operations on accounts, and on the end users of a workspace. */

import { call, type TestWorkspace, unique } from '../support/fixtures/tenants.ts'
import type { Row } from './sweep-rows.ts'

export const ACCOUNT_ROWS: Readonly<Record<string, Row>> = {
  'account.create': {
    path: () => '/v1/accounts',
    body: ({ workspace }) => ({
      tenant_id: workspace.tenantId,
      workspace_id: workspace.workspaceId,
      role: 'service',
      email: `${unique('x')}@example.test`,
    }),
    foreign: 'not_found',
  },
  'account.get': { path: ({ accountId }) => `/v1/accounts/${accountId}`, foreign: 'not_found' },
  'account.list': {
    path: ({ workspace }) => `/v1/accounts?tenant_id=${workspace.tenantId}`,
    foreign: 'own_list',
  },
  'account.update': {
    path: ({ accountId }) => `/v1/accounts/${accountId}`,
    body: () => ({ disabled: true }),
    foreign: 'not_found',
  },
  'account.invite': {
    path: ({ accountId }) => `/v1/accounts/${accountId}/invite`,
    body: () => ({}),
    foreign: 'not_found',
  },
  'account.reset': {
    path: ({ accountId }) => `/v1/accounts/${accountId}/reset`,
    body: () => ({}),
    foreign: 'not_found',
  },
  'account.confirm': {
    path: ({ accountId }) => `/v1/accounts/${accountId}/confirm`,
    body: () => ({}),
    foreign: 'not_found',
  },
  'account.reset_factors': {
    path: ({ accountId }) => `/v1/accounts/${accountId}/reset-factors`,
    body: () => ({}),
    foreign: 'not_found',
  },
  'account.list_sessions': {
    path: ({ accountId }) => `/v1/accounts/${accountId}/sessions`,
    foreign: 'not_found',
  },
  'account.end_session': {
    path: ({ accountId }) => `/v1/accounts/${accountId}/sessions/ses_1`,
    foreign: 'not_found',
  },
  'sign_in_policy.get': {
    path: ({ workspace }) => `/v1/sign-in-policy?tenant_id=${workspace.tenantId}`,
    foreign: 'not_found',
  },
  'sign_in_policy.set': {
    path: () => '/v1/sign-in-policy',
    body: ({ workspace }) => ({ tenant_id: workspace.tenantId, require_mfa: false }),
    foreign: 'not_found',
  },
  'account.delete': { path: ({ accountId }) => `/v1/accounts/${accountId}`, foreign: 'not_found' },
}

export const USER_ROWS: Readonly<Record<string, Row>> = {
  'user.create': {
    path: () => '/v1/users',
    body: ({ workspace }) => ({
      workspace_id: workspace.workspaceId,
      email: `${unique('x')}@example.test`,
    }),
    foreign: 'not_found',
  },
  'user.get': { path: ({ userId }) => `/v1/users/${userId}`, foreign: 'not_found' },
  'user.list': {
    path: ({ workspace }) => `/v1/users?workspace_id=${workspace.workspaceId}`,
    foreign: 'own_list',
  },
  'user.export': {
    path: ({ workspace }) => `/v1/users/export?workspace_id=${workspace.workspaceId}`,
    foreign: 'not_found',
  },
  'user.export_data': { path: ({ userId }) => `/v1/users/${userId}/export`, foreign: 'not_found' },
  'user.invite': {
    path: ({ userId }) => `/v1/users/${userId}/invite`,
    body: () => ({}),
    foreign: 'not_found',
  },
  'user.update': {
    path: ({ userId }) => `/v1/users/${userId}`,
    body: () => ({ name: 'somebody' }),
    foreign: 'not_found',
  },
  'user.reset_factors': {
    path: ({ userId }) => `/v1/users/${userId}/reset-factors`,
    body: () => ({}),
    foreign: 'not_found',
  },
  'user.list_sessions': { path: ({ userId }) => `/v1/users/${userId}/sessions`, foreign: 'not_found' },
  'user.end_session': { path: ({ userId }) => `/v1/users/${userId}/sessions/ses_1`, foreign: 'not_found' },
  'user.sign_out': {
    path: ({ userId }) => `/v1/users/${userId}/sign-out`,
    body: () => ({}),
    foreign: 'not_found',
  },
  'user.delete': { path: ({ userId }) => `/v1/users/${userId}`, foreign: 'not_found' },
}

/** A user of the workspace, who is invited. @returns its id */
export async function inviteSweepUser({ workspaceId, operator: as }: TestWorkspace): Promise<string> {
  const workspace_id = workspaceId
  await call('POST', '/v1/services/configure', { as, body: { workspace_id, auth: { sign_up: 'invite' } } })
  const body = { workspace_id, email: `${unique('u')}@example.test`, name: 'ours' }
  return (await call('POST', '/v1/users', { as, body })).body.id
}
