/** Knows how an activity fails so that the flow sees one of the standard errors, and nobody tries it again. */

import { ApplicationFailure } from '@temporalio/common'
import { ERRORS } from '../../flows-dsl/errors.ts'

/**
 * A final failure of one of the standard types (OWS 1.0 "Standard Error Types").
 * @param detail one sentence for people: no credential, nothing of the platform's inside
 * @param changes what this case says more exactly than its type
 */
export function callFailure(
  name: keyof typeof ERRORS,
  detail: string,
  changes: { readonly status?: number; readonly title?: string } = {},
): ApplicationFailure {
  return ApplicationFailure.nonRetryable(detail, name, { ...ERRORS[name], ...changes, detail })
}
