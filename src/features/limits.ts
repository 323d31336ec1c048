/** Limits that several features share. */

export const SHARED_LIMITS = {
  /** Executions, function runs and calls that have started one another. A further one is refused with `state_conflict`. */
  chainDepthMax: 16,
  /** Steps of validating an input against its schema, about 10 ms. A validation that takes more is refused. */
  inputCheckStepsMax: 50_000,
  /** Versions of one alias. More are refused with `validation_failed`. */
  aliasVersionsMax: 10,
  /** Parts of the weight of one version of an alias. More are refused with `validation_failed`. */
  aliasWeightMax: 1_000_000,
  /** Characters of the reason for a suspension, a pause or a correction. A longer one is refused with `validation_failed`. */
  reasonCharsMax: 500,
} as const
