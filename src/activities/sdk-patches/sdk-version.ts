/** The version of Temporal's SDK that the patches of this folder are written for. */

import sdk from '@temporalio/worker/package.json' with { type: 'json' }
import type { Config } from '../../infra/config.ts'
import type { Log } from '../../infra/log.ts'

const PATCHED_VERSION = '1.24.0'

/** False for another version of the SDK, which is logged, and with `TENON_SDK_PATCHES=off`. */
export function isPatched({ TENON_SDK_PATCHES }: Pick<Config, 'TENON_SDK_PATCHES'>, log: Log): boolean {
  if (TENON_SDK_PATCHES === 'off') return false
  if (sdk.version === PATCHED_VERSION) return true
  log.warn({ version: sdk.version, patched: PATCHED_VERSION }, 'sdk patches skipped')
  return false
}
