"""What applications do with boto3: each function is a case, and raises if the S3 API answers otherwise than S3."""

import hashlib
import io
import os
import sys
import traceback
import urllib.error
import urllib.request

import boto3
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import ClientError

BUCKET = os.environ['BUCKET']
s3 = boto3.client('s3', config=Config(s3={'addressing_style': 'path'}, retries={'max_attempts': 1}))


def refused(code, work, *args, **kwargs):
    try:
        work(*args, **kwargs)
    except ClientError as error:
        assert error.response['Error']['Code'] == code, error.response
        return
    raise AssertionError(f'not refused with {code}')


def case_objects():
    for key in ['plain', 'a b+c', 'ü/€/😀', 'a//b', "!'()*~", 'x' * 1024]:
        s3.put_object(Bucket=BUCKET, Key=key, Body=key.encode(), Metadata={'k': 'v'}, ContentType='text/plain')
        got = s3.get_object(Bucket=BUCKET, Key=key)
        assert got['Body'].read() == key.encode()
        assert got['ContentType'] == 'text/plain' and got['Metadata'] == {'k': 'v'}
        assert s3.head_object(Bucket=BUCKET, Key=key)['ETag'] == f'"{hashlib.md5(key.encode()).hexdigest()}"'
    names = [o['Key'] for page in s3.get_paginator('list_objects_v2').paginate(Bucket=BUCKET, PaginationConfig={'PageSize': 2}) for o in page['Contents']]
    assert names == sorted(names, key=lambda name: name.encode()) and 'a//b' in names, names
    gone = s3.delete_objects(Bucket=BUCKET, Delete={'Objects': [{'Key': name} for name in names]})
    assert len(gone['Deleted']) == len(names), gone
    refused('404', s3.head_object, Bucket=BUCKET, Key='plain')
    refused('NoSuchKey', s3.get_object, Bucket=BUCKET, Key='plain')


def case_signatures():
    for payload in [True, False]:
        signed = boto3.client('s3', config=Config(s3={'addressing_style': 'path', 'payload_signing_enabled': payload}))
        signed.put_object(Bucket=BUCKET, Key='signed', Body=b'x')
    own = os.environ['AWS_ACCESS_KEY_ID']
    wrong = boto3.client('s3', aws_access_key_id=own, aws_secret_access_key='x' * 40, config=Config(s3={'addressing_style': 'path'}))
    refused('SignatureDoesNotMatch', wrong.get_object, Bucket=BUCKET, Key='signed')
    unknown = boto3.client('s3', aws_access_key_id='key_unknown', aws_secret_access_key='x' * 40, config=Config(s3={'addressing_style': 'path'}))
    refused('InvalidAccessKeyId', unknown.get_object, Bucket=BUCKET, Key='signed')


def case_presigned():
    config = Config(signature_version='s3v4', s3={'addressing_style': 'path'})
    client = boto3.client('s3', config=config)
    key = 'pre signed/ü+&?.txt'
    put = client.generate_presigned_url('put_object', Params={'Bucket': BUCKET, 'Key': key, 'ContentType': 'text/x'}, ExpiresIn=60)
    request = urllib.request.Request(put, data=b'hello', method='PUT', headers={'content-type': 'text/x'})
    assert urllib.request.urlopen(request).status == 200
    get = client.generate_presigned_url('get_object', Params={'Bucket': BUCKET, 'Key': key, 'ResponseContentDisposition': 'attachment; filename="ü.txt"'.encode('ascii', 'ignore').decode()}, ExpiresIn=60)
    with urllib.request.urlopen(get) as reply:
        assert reply.read() == b'hello' and reply.headers['content-disposition'].startswith('attachment')
    for bad in [get.replace('X-Amz-Expires=60', 'X-Amz-Expires=600'), get[:-1], get.replace('pre%20signed', 'other')]:
        try:
            urllib.request.urlopen(bad)
        except urllib.error.HTTPError as error:
            assert error.code == 403, error.code
        else:
            raise AssertionError('a changed URL is accepted')


def case_multipart():
    data = os.urandom(13 * 1024 * 1024)
    config = TransferConfig(multipart_threshold=5 * 1024 * 1024, multipart_chunksize=5 * 1024 * 1024, max_concurrency=3)
    s3.upload_fileobj(io.BytesIO(data), BUCKET, 'large', Config=config)
    back = io.BytesIO()
    s3.download_fileobj(BUCKET, 'large', back, Config=config)
    assert back.getvalue() == data
    s3.copy({'Bucket': BUCKET, 'Key': 'large'}, BUCKET, 'large copy', Config=config)
    assert s3.get_object(Bucket=BUCKET, Key='large copy')['Body'].read() == data


def case_checksums():
    for algorithm in ['CRC32', 'SHA1', 'SHA256']:
        s3.put_object(Bucket=BUCKET, Key='sum', Body=b'hello', ChecksumAlgorithm=algorithm)
        s3.put_object(Bucket=BUCKET, Key='sum', Body=io.BytesIO(b'hello' * 100_000), ChecksumAlgorithm=algorithm)
    refused('BadDigest', s3.put_object, Bucket=BUCKET, Key='sum', Body=b'hello', ChecksumCRC32='AAAAAA==')
    refused('BadDigest', s3.put_object, Bucket=BUCKET, Key='sum', Body=b'hello', ContentMD5='AAAAAAAAAAAAAAAAAAAAAA==')
    refused('InvalidDigest', s3.put_object, Bucket=BUCKET, Key='sum', Body=b'hello', ContentMD5='x')


def case_conditions():
    etag = s3.put_object(Bucket=BUCKET, Key='cond', Body=b'1')['ETag']
    refused('PreconditionFailed', s3.put_object, Bucket=BUCKET, Key='cond', Body=b'2', IfNoneMatch='*')
    refused('304', s3.get_object, Bucket=BUCKET, Key='cond', IfNoneMatch=etag)
    assert s3.get_object(Bucket=BUCKET, Key='cond', Range='bytes=0-')['ContentRange'] == 'bytes 0-0/1'


def case_tags_and_bucket():
    s3.put_object(Bucket=BUCKET, Key='tagged', Body=b'', Tagging='a=1')
    assert s3.get_object_tagging(Bucket=BUCKET, Key='tagged')['TagSet'] == [{'Key': 'a', 'Value': '1'}]
    assert [b['Name'] for b in s3.list_buckets()['Buckets']] == [BUCKET]
    s3.head_bucket(Bucket=BUCKET)
    assert s3.get_bucket_location(Bucket=BUCKET)['LocationConstraint'] is None
    refused('NotImplemented', s3.get_bucket_policy, Bucket=BUCKET)
    refused('AccessDenied', s3.list_objects_v2, Bucket='not-this-one')


failed = 0
for name, case in [(n, c) for n, c in sorted(globals().items()) if n.startswith('case_')]:
    try:
        case()
        print(f'  ✓ boto3 {boto3.__version__}: {name[5:]}')
    except Exception:  # each case is reported
        failed += 1
        print(f'  ✗ boto3: {name[5:]}', traceback.format_exc(), file=sys.stderr)
sys.exit(1 if failed else 0)
