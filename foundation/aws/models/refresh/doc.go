// Command refresh takes the API models of services from botocore, removes their documentation texts
// and writes one compressed file for each.
//
//	go run ./foundation/aws/models/refresh -from botocore-1.43.11-py3-none-any.whl -out foundation/aws/models route53 sts
//
// -from is a wheel, or a directory that has botocore/data in it. The version of the API that is
// taken is the newest that is there.
package main
