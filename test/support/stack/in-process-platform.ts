/** Builds a platform inside the test's process, for functions that no request reaches. */

import { inject } from 'vitest'
import type { WorkspaceScope } from '../../../src/access/scope.ts'
import { openPlatform, type Platform } from '../../../src/app/platform.ts'
import { randomIds } from '../../../src/core/ids.ts'
import type { TenantId, WorkspaceId } from '../../../src/core/tenant.ts'
import { parseConfig } from '../../../src/infra/config.ts'
import { openLog } from '../../../src/infra/log.ts'
import type { TestWorkspace } from '../fixtures/tenants.ts'

/** @param env settings that differ from those of the common platform */
export function openInProcessPlatform(env: Readonly<Record<string, string>> = {}): Platform {
  return openPlatform(parseConfig({ ...inject('tenon').env, ...env }), openLog('silent', 'test')).platform
}

export function scopeOf(platform: Platform, { tenantId, workspaceId }: TestWorkspace): WorkspaceScope {
  return platform.access.continueWorkspace(
    { tenantId: tenantId as TenantId, workspaceId: workspaceId as WorkspaceId },
    { subject: 'test', role: 'workspace_admin' },
    randomIds,
  )
}
