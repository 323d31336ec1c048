/** Converts failures of workflows and activities: operators see the type of an error, the codec encrypts the rest. */

import {
  ApplicationFailure,
  DefaultFailureConverter,
  type Payload,
  type PayloadConverter,
  type ProtoFailure,
  type SerializationContext,
} from '@temporalio/common'
import { MARK, type Mark, UNAUTHENTICATED } from '../core/work.ts'

/** A failure with a line that operators may read: no data is in it. */
export class SummarizedFailure extends ApplicationFailure {
  readonly summary: string

  constructor(open: string, message: string, type: string, details: unknown) {
    super(message, type, true, [details])
    this.summary = open
  }
}

class Failures extends DefaultFailureConverter {
  constructor() {
    super({ encodeCommonAttributes: true })
  }

  override errorToFailure(
    error: unknown,
    converter: PayloadConverter,
    context?: SerializationContext,
  ): ProtoFailure {
    const failure = super.errorToFailure(error, converter, context)
    const { encodedAttributes, applicationFailureInfo } = failure
    const details = applicationFailureInfo?.details
    return {
      ...failure,
      message: error instanceof SummarizedFailure ? error.summary : applicationFailureInfo?.type || 'Failed',
      ...(encodedAttributes && { encodedAttributes: withMark(encodedAttributes, 'failure') }),
      ...(details?.payloads && {
        applicationFailureInfo: {
          ...applicationFailureInfo,
          details: { payloads: details.payloads.map((payload) => withMark(payload, 'detail')) },
        },
      }),
    }
  }

  /** A failure keeps its type; texts and details that the platform has not sealed for this workflow are left out. */
  override failureToError(
    failure: ProtoFailure,
    converter: PayloadConverter,
    context?: SerializationContext,
  ): Error {
    try {
      return super.failureToError(failure, converter, context)
    } catch (error) {
      if (!(error instanceof ApplicationFailure) || error.type !== UNAUTHENTICATED) throw error
      return super.failureToError(withoutPayloads(failure), converter, context)
    }
  }
}

function withoutPayloads(failure: ProtoFailure): ProtoFailure {
  const { applicationFailureInfo, timeoutFailureInfo, canceledFailureInfo } = failure
  return {
    ...failure,
    encodedAttributes: null,
    ...(applicationFailureInfo && { applicationFailureInfo: { ...applicationFailureInfo, details: null } }),
    ...(timeoutFailureInfo && {
      timeoutFailureInfo: { ...timeoutFailureInfo, lastHeartbeatDetails: null },
    }),
    ...(canceledFailureInfo && { canceledFailureInfo: { ...canceledFailureInfo, details: null } }),
  }
}

function withMark(payload: Payload, mark: Mark): Payload {
  return { ...payload, metadata: { ...payload.metadata, [MARK]: new TextEncoder().encode(mark) } }
}

/** Loaded by the worker from a file of its own. */
export const failureConverter = new Failures()
