/** The platform inside a test's own process, for what no request does by itself. */

import { inject } from 'vitest'
import { randomIds } from '../../src/core/ids.ts'
import type { TenantId, WorkspaceId } from '../../src/core/tenant.ts'
import { parseConfig } from '../../src/platform/config.ts'
import { openLog } from '../../src/platform/log.ts'
import { openPlatform, type Platform } from '../../src/platform/platform.ts'
import type { WorkspaceScope } from '../../src/platform/scope.ts'
import type { Room } from './tenants.ts'

export function openInside(): Platform {
  return openPlatform(parseConfig({ ...inject('tenon').env }), openLog('silent', 'test')).platform
}

export function scopeOf(platform: Platform, { tenantId, workspaceId }: Room): WorkspaceScope {
  return platform.access.continueWorkspace(
    { tenantId: tenantId as TenantId, workspaceId: workspaceId as WorkspaceId },
    { subject: 'test', role: 'workspace_admin' },
    randomIds,
  )
}
