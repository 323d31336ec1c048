/** Builds a platform inside the test's process, for functions that no request reaches. */

import { inject } from 'vitest'
import { inAnyState } from '../../../src/access/openers.ts'
import type { WorkspaceScope } from '../../../src/access/scope.ts'
import { openPlatform, type Platform } from '../../../src/app/platform.ts'
import type { TenantId, WorkspaceId } from '../../../src/core/tenant.ts'
import { parseConfig } from '../../../src/infra/config.ts'
import { openLog } from '../../../src/infra/log.ts'
import type { TestWorkspace } from '../fixtures/tenants.ts'

/** @param env settings that differ from those of the common platform */
export function openInProcessPlatform(env: Readonly<Record<string, string>> = {}): Platform {
  return openPlatform(parseConfig({ ...inject('tenon').env, ...env }), openLog('silent', 'test')).platform
}

export function scopeOf(
  platform: Platform,
  { tenantId, workspaceId }: TestWorkspace,
  role: 'workspace_admin' | 'viewer' | 'service' = 'workspace_admin',
): WorkspaceScope {
  const ref = { tenantId: tenantId as TenantId, workspaceId: workspaceId as WorkspaceId }
  return inAnyState(platform.access, ref, { subject: 'test', role })
}
