/** How errors travel, of workflows and of activities: operators see of what kind they are, the codec hides the rest. */

import {
  ApplicationFailure,
  DefaultFailureConverter,
  type Payload,
  type PayloadConverter,
  type ProtoFailure,
  type SerializationContext,
} from '@temporalio/common'
import { MARK, type Mark } from '../core/payload-mark.ts'

/** A failure with a line that operators may read: no data is in it. */
export class OpenFailure extends ApplicationFailure {
  readonly open: string

  constructor(open: string, message: string, type: string, details: unknown) {
    super(message, type, true, [details])
    this.open = open
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
      message: error instanceof OpenFailure ? error.open : applicationFailureInfo?.type || 'Failed',
      ...(encodedAttributes && { encodedAttributes: marked(encodedAttributes, 'failure') }),
      ...(details?.payloads && {
        applicationFailureInfo: {
          ...applicationFailureInfo,
          details: { payloads: details.payloads.map((payload) => marked(payload, 'detail')) },
        },
      }),
    }
  }
}

function marked(payload: Payload, mark: Mark): Payload {
  return { ...payload, metadata: { ...payload.metadata, [MARK]: new TextEncoder().encode(mark) } }
}

export const failureConverter = new Failures()
