"""Makes an authority, and a certificate of it for 127.0.0.1: authority.pem, server.pem and server.key in the
folder that its argument names."""
import datetime
import ipaddress
import pathlib
import sys

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

folder = pathlib.Path(sys.argv[1])
now = datetime.datetime.now(datetime.timezone.utc)
day = datetime.timedelta(days=1)


def name(text):
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])


def certificate(subject, key, signer, extension):
    builder = x509.CertificateBuilder().subject_name(name(subject)).issuer_name(name("authority"))
    builder = builder.public_key(key.public_key()).serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - day).not_valid_after(now + day)
    return builder.add_extension(extension, critical=True).sign(signer, hashes.SHA256())


def write(file, certificate):
    (folder / file).write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


authority, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
write("authority.pem", certificate("authority", authority, authority, x509.BasicConstraints(True, None)))
place = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
write("server.pem", certificate("server", key, authority, place))
(folder / "server.key").write_bytes(key.private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
