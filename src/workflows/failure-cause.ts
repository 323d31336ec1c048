/** What activities fail with, as those who have called them see it. */

import { ActivityFailure } from '@temporalio/common'

/** What an activity has thrown. That of a local one comes bare, without the failure that says which activity it was. */
export function causeOf(error: unknown): unknown {
  return error instanceof ActivityFailure ? error.cause : error
}
