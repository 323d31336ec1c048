/** Headers that a gateway sends for a caller that it has verified. */

import { inject } from 'vitest'
import type { Caller, TestWorkspace } from '../fixtures/tenants.ts'

/** The identity headers alone, which any client can send. */
export const identityHeaders = (
  { tenantId, workspaceId }: Pick<TestWorkspace, 'tenantId' | 'workspaceId'>,
  role = 'service',
  subject = 'carol',
): Caller => ({
  'x-tenant-id': tenantId,
  'x-workspace-id': workspaceId,
  'x-auth-subject': subject,
  'x-pg-role': role,
})

/** The same with the secret of the running platform. */
export const gatewayHeaders = (...of: Parameters<typeof identityHeaders>): Caller => ({
  ...identityHeaders(...of),
  'x-gateway-secret': inject('tenon').env['GATEWAY_SECRET'] ?? '',
})
