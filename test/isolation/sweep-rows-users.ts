/** Rows of the sweep for operations on the end users of a workspace. */

import { call, type TestWorkspace, unique } from '../support/fixtures/tenants.ts'
import type { Row } from './sweep-rows.ts'

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
