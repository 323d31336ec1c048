/** Converts failures of workflows and activities: operators see the type of an error, the codec encrypts the rest. */

import {
  ApplicationFailure,
  DefaultFailureConverter,
  type Payload,
  type PayloadConverter,
  type ProtoFailure,
  type SerializationContext,
} from '@temporalio/common'
import { PAYLOAD_MARK, type PayloadMark, UNAUTHENTICATED } from '../core/work.ts'

/** A failure with a summary that operators may read, since it contains no data. */
export class SummarizedFailure extends ApplicationFailure {
  readonly summary: string

  constructor(summary: string, message: string, type: string, details: unknown) {
    super(message, type, true, [details])
    this.summary = summary
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

  /** Of this failure and of its causes. */
  override errorToFailureInner(
    error: unknown,
    converter: PayloadConverter,
    context?: SerializationContext,
  ): ProtoFailure {
    const failure = super.errorToFailureInner(error, converter, context)
    return { ...failure, stackTrace: functionsOf(failure.stackTrace ?? '') }
  }

  /** Keeps the type of a failure, and omits texts and details that the platform has not sealed for this workflow. */
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

/**
 * A stack trace with the names of functions alone: the paths of the platform's sources say nothing to those who read it in the
 * Temporal UI. The log has the whole one of a fault of the platform.
 */
function functionsOf(stack: string): string {
  const lines = stack.split('\n').flatMap((line) => {
    if (!/^\s+at /.test(line)) return [line]
    const place = line.endsWith(')') ? line.indexOf(' (') : -1
    return place === -1 ? [] : [line.slice(0, place)]
  })
  return lines.join('\n')
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

function withMark(payload: Payload, mark: PayloadMark): Payload {
  return { ...payload, metadata: { ...payload.metadata, [PAYLOAD_MARK]: new TextEncoder().encode(mark) } }
}

/** The worker loads this module by its path, so the export has the name that Temporal expects. */
export const failureConverter = new Failures()
